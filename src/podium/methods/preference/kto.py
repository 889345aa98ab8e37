"""KTO: Kahneman-Tversky optimisation."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.methods.preference._shared import paired
from podium.parts.annotate import MismatchedKL
from podium.parts.objective import Quality

__all__ = ["kto"]


@recipe(
    summary="Learns from single answers marked good or bad; no pairs. Each is compared with a typical answer.",
    citation="Ethayarajh et al. 2024, KTO: Model Alignment as Prospect Theoretic Optimization, "
    "https://arxiv.org/abs/2402.01306",
    tags=("preference", "offline", "unpaired", "reference model"),
    protocol=Protocol(
        lr=5e-7, warmup=0.1, schedule="linear", source="ContextualAI/HALOs, config/loss/kto.yaml and its README"
    ),
    home=Home("trips", level=1, iterations=12, model="podium/tiny2"),
    presets={"paper": {"beta": 0.1, "mini_batches": 1}},
)
def kto(
    source: str = "world",
    beta: float = 0.5,
    good: float = 1.0,
    bad: float = 1.0,
    skip: bool = False,
    samples: int = 5,
    temperature: float = 0.8,
    epochs: int = 1,
    mini_batches: int = 4,
) -> Method:
    """loss = good · (1 − σ(D − z)) of good answers, bad · (1 − σ(z − D)) of bad ones; D = beta · Σ_t (log π − log
    π_ref), and z = beta · max(0, mean of Σ_t (log π − log π_ref) over answers put after other questions), a constant.

    z stands for KL(π ‖ π_ref). It is measured before the first update of a batch, so with several mini-batches it is
    that of the policy at their beginning. The authors take one step per batch and beta = 0.1 (`kto@paper`), for
    answers of hundreds of tokens; 4 mini-batches and 0.5 are ours, with which z acts in a short run on short answers.
    In the first batch z is 0, and it stays 0 where training makes answers after other questions less likely, as on most
    of the embedded worlds (`sums`, `shop`, `opinions`); on `trips`, whose plans share their form, it rises at once.

    A file may have `completion` and `label` (true or false) in place of pairs; of a pair both answers are examples.
    good · (number of good ones) should be within 1 to 4/3 of bad · (number of bad ones).

    Args:
        source: `world` (right and wrong attempts that the world writes), `best-worst` (of samples), or a file.
        beta: Scale of the implicit reward D.
        good: Weight of good answers.
        bad: Weight of bad answers.
        skip: Leave out rows of the file with empty or equal answers, instead of refusing it.
        samples: Samples per task, of which the best and the worst are taken (`best-worst`).
        temperature: Sampling temperature (`best-worst`).
        epochs: Passes over the answers of an iteration.
        mini_batches: Optimiser steps per pass.
    """
    term = Quality(temperature=1 / beta, shift="batch.mismatched_kl", link="sigmoid", right=good, wrong=bad)
    method = Method(
        annotate=(MismatchedKL(temperature=1 / beta),),
        objective=(term,),
        updates=Updates(epochs=epochs, mini_batches=mini_batches),
        roles=(Role("ref"),),
    )
    return paired(method, source, skip=skip, samples=samples, temperature=temperature)
