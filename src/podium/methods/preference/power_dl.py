"""POWER-DL: robust rewards and dynamic labels against reward hacking."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.memories import PairLabels
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.methods.preference._shared import paired
from podium.parts.metric import LabelAUC
from podium.parts.objective import Likelihood, Preference
from podium.parts.shape import MarkWinners

__all__ = ["power_dl"]


@recipe(
    summary="Preference pairs with weighted entropy, an anchor on the winners, and labels that move to the prediction.",
    citation="Rashidinejad and Tian 2024, Sail into the Headwind: Alignment via Robust Rewards and Dynamic Labels "
    "against Reward Hacking, https://arxiv.org/abs/2412.09544",
    tags=("preference", "offline", "pairs", "reference-free", "label noise", "reward hacking"),
    protocol=Protocol(
        warmup=0.1,
        schedule="cosine",
        tasks=128,
        source="arXiv 2412.09544, which follows SimPO's recipe; no code is released, and eta and the rate of labels "
        "are of the range that it searches",
    ),
    home=Home("sums", level=2, pool=32),
    presets={"instruct": {"beta": 10.0}, "power": {"rate": 0.0}},
)
def power_dl(
    source: str = "world",
    beta: float = 2.0,
    eta: float = 0.1,
    rate: float = 0.1,
    weight: str = "length",
    flip: float = 0.0,
    skip: bool = False,
    samples: int = 5,
    temperature: float = 0.8,
    epochs: int = 1,
    mini_batches: int = 1,
) -> Method:
    """loss = −l log σ(d) − (1 − l) log σ(−d) − eta · beta · w⁺ log π⁺, the mean over pairs, with
    d = beta · (w⁺ log π⁺ − w⁻ log π⁻ + w⁺ − w⁻), log π the sum over an answer's tokens and w = 1 / |y|. The label l of
    a pair begins at 1 and moves by l ← (1 − rate) · l + rate · σ(d) after each use.

    d is the reward difference for which the policy maximises reward and weighted entropy; the last term is the robust
    part, with the winners as baseline. The gradient of the preference in d is σ(d) − l: a pair that the model keeps
    contradicting, such as one with a wrong label, fades out. rate = 0 is POWER (`power-dl@power`), with eta = 0 SimPO
    with the margin beta · (1/|y⁻| − 1/|y⁺|); with rate = 1 only the anchor trains. A pair is known by its task, so
    tasks must come back (`pool`). Within an iteration of several updates the label is that of its beginning.

    No code is released. The loss and the rule of the labels are the paper's; where the pairs come from, `flip`, and
    which of the values that the paper searches are defaults is ours.

    Args:
        source: `world` (right and wrong attempts that the world writes), `best-worst` (of samples), or a file of pairs.
        beta: Scale of the implicit reward; the paper's 2 for base models, 10 for instruct models.
        eta: Weight of the anchor, tuned from 5e-4 to 0.1 in the paper.
        rate: How fast labels move, from 0 to 1; the paper's 0.1 or 0.3.
        weight: w: `length` (1 / |y|) or `one`, plain sums.
        flip: Share of pairs whose label is wrong on purpose, to study noise (`world`).
        skip: Leave out rows of the file with empty or equal answers, instead of refusing it.
        samples: Samples per task, of which the best and the worst are a pair (`best-worst`).
        temperature: Sampling temperature (`best-worst`).
        epochs: Passes over the pairs of an iteration.
        mini_batches: Optimiser steps per pass.
    """
    if weight not in ("length", "one"):
        raise PodiumError(f"power-dl: weight = {weight!r} is not 'length' or 'one'.")
    score, brevity = ("mean", 1.0) if weight == "length" else ("sum", 0.0)
    term = Preference(temperature=1 / beta, score=score, against=None, brevity=brevity)
    method = Method(objective=(term,), updates=Updates(epochs=epochs, mini_batches=mini_batches))
    if eta:
        anchor = Likelihood(
            where="rollout.winner", coefficient=eta * beta, aggregate=Aggregate(f"token {score}, rollout mean")
        )
        method = method.with_(shape=MarkWinners(), objective=(term, anchor))
    if rate:
        labels = PairLabels(rate, temperature=1 / beta, score=score, brevity=brevity)
        method = method.set("objective.Preference.label", "group.label") | labels
        method = method | LabelAUC() if flip else method
    return paired(method, source, skip=skip, samples=samples, temperature=temperature, flip=flip)
