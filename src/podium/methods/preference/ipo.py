"""IPO: identity preference optimisation."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.methods.preference._shared import paired
from podium.parts.objective import Preference

__all__ = ["ipo"]


@recipe(
    summary="Preference pairs by regression: the winner's lead over the reference is drawn to a target and no further.",
    citation="Azar et al. 2023, A General Theoretical Paradigm to Understand Learning from Human Preferences, "
    "https://arxiv.org/abs/2310.12036",
    tags=("preference", "offline", "pairs", "reference model", "regression"),
    protocol=Protocol(lr=1e-6, source="huggingface/trl 1.9, DPOConfig with loss_type='ipo'; the paper has no such run"),
    home=Home("sums", level=2),
    presets={"sum": {"score": "sum"}},
)
def ipo(
    source: str = "world",
    beta: float = 0.1,
    score: str = "mean",
    skip: bool = False,
    samples: int = 5,
    temperature: float = 0.8,
    epochs: int = 1,
    mini_batches: int = 4,
) -> Method:
    """loss = (h − 1 / (2 beta))², h = s⁺ − s⁻, s = the mean over an answer's tokens of log π − log π_ref.

    The gradient vanishes at the target, where DPO's goes on. `ipo@sum` sums over the tokens, as the paper prints it;
    TRL takes the mean, which its authors confirmed to be that of the paper's results.

    Args:
        source: `world` (right and wrong attempts that the world writes), `best-worst` (of samples), or a file of pairs.
        beta: Strength of the hold to the reference: the target of h is 1 / (2 beta). The paper's τ.
        score: `mean` or `sum` of the log-ratios over the tokens.
        skip: Leave out rows of the file with empty or equal answers, instead of refusing it.
        samples: Samples per task, of which the best and the worst are a pair (`best-worst`).
        temperature: Sampling temperature (`best-worst`).
        epochs: Passes over the pairs of an iteration.
        mini_batches: Optimiser steps per pass.
    """
    target = 1 / (2 * beta)
    term = Preference(temperature=target, score=score, link="squared", coefficient=target**2)
    method = Method(objective=(term,), updates=Updates(epochs=epochs, mini_batches=mini_batches), roles=(Role("ref"),))
    return paired(method, source, skip=skip, samples=samples, temperature=temperature)
