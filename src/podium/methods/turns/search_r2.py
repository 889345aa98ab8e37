"""Search-R2: an actor that searches, and a refiner that rejects, cuts and lets it go on."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import UsefulSearches
from podium.parts.shape import FromParent
from podium.strategies import Refiner

__all__ = ["search_r2"]


@recipe(
    summary="The policy accepts its search trajectories, or cuts them at the first wrong step and goes on from there.",
    citation="Search-R2: Enhancing Search-Integrated Reasoning via Actor-Refiner Collaboration, arXiv:2602.03647",
    tags=("search", "agents", "self-correction", "revision", "process reward", "multi-turn"),
    presets={
        "search-r1": {"revisions": 0, "process": 0.0},
        "actor": {"revisions": 0},
        "drawn": {"threshold": None},
        "paper": {"mini_batches": 1},
    },
    protocol=Protocol(
        model="Qwen2.5-7B",
        source="the paper, through a reading note with its equations; learning rate and batch were not found",
    ),
    home=Home("lookup", level=2, dials={"miss": 0.3}, iterations=10, tasks=16, model="podium/tiny2"),
)
def search_r2(
    n: int = 5,
    revisions: int = 1,
    threshold: float | None = 0.5,
    process: float = 1.0,
    clip: float = 0.2,
    kl: float = 0.001,
    epsilon: float = 1e-6,
    mini_batches: int = 4,
) -> Method:
    """The same weights play three parts. The actor writes a trajectory; it is accepted if a = π(accept | accept or
    reject) ≥ threshold; otherwise a cut k is drawn from π(cut: k), the first k − 1 steps are kept and the actor
    writes the rest anew. R = r · (1 + process · p), r the outcome and p the share of searches that were useful. GRPO's
    advantage over the n last trajectories goes to every token that led to one: its steps, the kept ones among them,
    the verdict and the cut. What was cut off is not trained.

    revisions = process = 0 is Search-R1 (`search-r2@search-r1`), revisions = 0 Search-R1 with this reward
    (`search-r2@actor`). The gain over the actor is Cov(a, R − U) + (1 − E a) · E[U − R], U the value of going on from
    a cut (`podium.analysis.refinement`). A revision that fails again is kept. Evaluation samples the actor alone. A
    right answer without a search earns 1, with useful searches up to 2, so searches pay even where they are not needed.
    The verdict is the likelier word, so the other one is never tried. At home the refiner soon accepts everything; a
    possible reason is that a rejected trajectory is mostly a bad one, which stays below the mean of its group even
    where the revision improves it. `search-r2@drawn` draws the verdict, as the gain above assumes.
    The authors' language model that judges searches is the world here (`lookup`); a search that repeats what is known
    is useless. Clip, KL penalty and mini-batches are those of Search-R1.

    Args:
        n: Rollouts per task (the group size).
        revisions: Revisions of a trajectory at most; 0 is no refiner.
        threshold: Probability of `accept` from which a trajectory is accepted; None: accepted with this probability.
        process: Weight of the share of useful searches.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        epsilon: Added to the standard deviation.
        mini_batches: Optimiser steps per batch.
    """
    method = Method(
        rollout=Refiner(n=n, revisions=revisions, threshold=threshold),
        reward=(UsefulSearches(process),),
        advantage=Normalize(epsilon=epsilon),
        shape=(FromParent(),),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(
            ReportMean("rollout.accepted", "rollout.final"),
            ReportMean("rollout.revised", "rollout.final"),
            ReportMean("rollout.gained", "rollout.final"),
            ReportMean("rollout.search_use", "rollout.final"),
        ),
    )
    return anchored(method, KL("k3", coefficient=kl))
