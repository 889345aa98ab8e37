"""DPO: direct preference optimisation."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.methods.preference._shared import paired
from podium.parts.objective import Preference

__all__ = ["dpo"]


@recipe(
    summary="Learns from pairs of answers, a better and a worse one, without a reward model: the policy is its own.",
    citation="Rafailov et al. 2023, Direct Preference Optimization, https://arxiv.org/abs/2305.18290",
    tags=("preference", "offline", "pairs", "reference model"),
    protocol=Protocol(
        model="Pythia 2.8B",
        lr=1e-6,
        warmup=150,
        schedule="constant",
        tasks=64,
        source="arXiv 2305.18290, appendix B; RMSprop there, AdamW here",
    ),
    home=Home("sums", level=2),
    presets={"hinge": {"link": "hinge"}, "conservative": {"smoothing": 0.1}},
)
def dpo(
    source: str = "world",
    beta: float = 0.1,
    smoothing: float = 0.0,
    link: str = "logistic",
    labels: str = "",
    skip: bool = False,
    samples: int = 5,
    temperature: float = 0.8,
    styles: tuple[str, str] = ("short", "short"),
    epochs: int = 1,
    mini_batches: int = 4,
) -> Method:
    """loss = −log σ(D⁺ − D⁻), D = beta · Σ_t (log π − log π_ref) over the tokens of an answer; the mean over pairs.

    The pairs come from a file with `chosen` and `rejected` (JSON lines or parquet, as the hub's preference data sets
    have them), from the world's own right and wrong attempts, or from the best and the worst of a few samples.
    smoothing > 0 is conservative DPO, for labels that are wrong with that probability; `labels` names a field with a
    probability for each pair. The loss of the first update is log 2 whatever the pairs. The summed log-ratio grows with
    the length of an answer, so that pairs whose winners are longer teach longer answers: see `simpo`.

    Args:
        source: `world` (right and wrong attempts that the world writes), `best-worst` (of samples), or a file of pairs.
        beta: Scale of the implicit reward D; small: the policy may move far from the reference.
        smoothing: Probability that a label is wrong.
        link: Loss of a pair: `logistic`, `hinge` or `squared`.
        labels: Field of the file with the probability that `chosen` is better; empty: it is.
        skip: Leave out rows of the file with empty or equal answers, instead of refusing it.
        samples: Samples per task, of which the best and the worst are a pair (`best-worst`).
        temperature: Sampling temperature (`best-worst`).
        styles: Styles of the right and of the wrong attempt (`world`).
        epochs: Passes over the pairs of an iteration.
        mini_batches: Optimiser steps per pass.
    """
    label = "rollout.label" if labels else None
    term = Preference(temperature=1 / beta, smoothing=smoothing, link=link, label=label)
    method = Method(objective=(term,), updates=Updates(epochs=epochs, mini_batches=mini_batches), roles=(Role("ref"),))
    return paired(method, source, skip=skip, labels=labels, samples=samples, temperature=temperature, styles=styles)
