"""SimPO: simple preference optimisation with a reference-free reward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podium.core.errors import PodiumError
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.methods.preference._shared import SAMPLED, paired
from podium.parts.objective import Likelihood, Preference
from podium.parts.shape import MarkWinners

__all__ = ["simpo"]

# The six published settings: beta and the ratio of the target margin to it.
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "mistral-base": {"beta": 2.0, "ratio": 0.8},
    "mistral-instruct": {"beta": 2.5, "ratio": 0.1},
    "llama3-base": {"beta": 2.0, "ratio": 0.5},
    "llama3-instruct": {"beta": 2.5, "ratio": 0.55},
    "llama3-instruct-v0.2": {"beta": 10.0, "ratio": 0.3},
    "gemma2": {"beta": 10.0, "ratio": 0.5},
}


@recipe(
    summary="Preference pairs without a reference model: the mean log-probability is the reward, with a target margin.",
    citation="Meng et al. 2024, SimPO, https://arxiv.org/abs/2405.14734",
    tags=("preference", "offline", "pairs", "reference-free", "length bias"),
    protocol=Protocol(
        model="Llama-3-8B-Instruct",
        lr=1e-6,
        warmup=0.1,
        schedule="cosine",
        tasks=128,
        source="princeton-nlp/SimPO, training_configs/llama-3-8b-instruct-simpo.yaml",
    ),
    home=Home("sums", level=2),
    presets=SETTINGS,
)
def simpo(
    source: str = SAMPLED,
    beta: float = 2.0,
    ratio: float = 0.25,
    smoothing: float = 0.0,
    link: str = "logistic",
    sft: float = 0.0,
    skip: bool = False,
    samples: int = 5,
    temperature: float = 0.8,
    styles: tuple[str, str] = ("short", "short"),
    epochs: int = 1,
    mini_batches: int = 1,
) -> Method:
    """loss = −log σ(r⁺ − r⁻ − γ), r = beta · mean over an answer's tokens of log π, γ = ratio · beta; mean over pairs.

    The mean makes answers of different lengths comparable: repeating every token changes nothing. Without a margin,
    with answers of one token and a uniform reference it is DPO. Plain `simpo` has the defaults of the released trainer;
    the six published settings are presets (`simpo@llama3-instruct`, …), whose learning rates are 3e-7, 5e-7, 6e-7,
    1e-6, 1e-6 and 8e-7 in this order. As for the instruct models, pairs are the best and the worst of five samples at
    temperature 0.8, scored by the world in place of a reward model; the authors made them once, here every iteration
    makes its own.

    Args:
        source: `best-worst` (of samples), `world` (right and wrong attempts that the world writes), or a file of pairs.
        beta: Scale of the implicit reward.
        ratio: Target margin over beta, γ / beta.
        smoothing: Probability that a label is wrong.
        link: Loss of a pair: `logistic` or `hinge`.
        sft: Weight of the likelihood of the winners, the mean over all their tokens; 0: none.
        skip: Leave out rows of the file with empty or equal answers, instead of refusing it.
        samples: Samples per task, of which the best and the worst are a pair (`best-worst`).
        temperature: Sampling temperature (`best-worst`).
        styles: Styles of the right and of the wrong attempt (`world`).
        epochs: Passes over the pairs of an iteration.
        mini_batches: Optimiser steps per pass.
    """
    if sft < 0:
        raise PodiumError(f"simpo: sft = {sft!r} must be at least 0.")
    settings: dict[str, Any] = {"margin": ratio * beta, "smoothing": smoothing, "link": link}
    term = Preference(temperature=1 / beta, score="mean", against=None, **settings)
    method = Method(objective=(term,), updates=Updates(epochs=epochs, mini_batches=mini_batches))
    if sft:
        imitate = Likelihood(where="rollout.winner", coefficient=sft)
        method = method.with_(shape=MarkWinners(), objective=(term, imitate))
    return paired(method, source, skip=skip, samples=samples, temperature=temperature, styles=styles)
