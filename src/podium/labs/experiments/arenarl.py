"""A tournament against a judge of single answers, under compression and noise, at about the same calls of the judge."""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import Lab, LabSize
from podium.labs.reading import Logged, Mean, PassAt
from podium.method import Method
from podium.methods import get
from podium.parts.metric import RankAgreement, ReportMean

__all__ = ["STUDY"]

QUALITY = Logged("watched.quality", "hidden quality")
RANKS = Logged("rank_agreement", "rank correlation with the truth")
CALLS = Logged("judge.calls", "calls of the judge")


def judged(topology: str, calls: int) -> Method:
    """This tournament, with so many calls for each comparison or rating."""
    return get("arenarl", n=8, topology=topology, calls=calls) | ReportMean("rollout.quality") | RankAgreement()


# Groups of 8: 28 calls each, and 32 for the pointwise judge.
STUDY = Lab(
    "arenarl",
    "Where a judge squeezes the scores of single answers and errs, does a tournament train better plans?",
    arms={
        "seeded": partial(judged, "seeded", 2),
        "pointwise": partial(judged, "pointwise", 4),
        "anchor": partial(judged, "anchor", 4),
        "round robin": partial(judged, "round_robin", 1),
    },
    claims=(
        Claim("a tournament trains better plans than a pointwise judge", QUALITY, "seeded", "pointwise"),
        Claim("more of its held-out plans are good", PassAt(1), "seeded", "pointwise"),
        Claim("a seeded elimination ranks at least as well as an anchor", RANKS, "seeded", "anchor"),
    ),
    readings=(PassAt(1), QUALITY, RANKS, CALLS, Mean("length", "tokens")),
    charts=(along(QUALITY), along(PassAt(1)), along(RANKS)),
    size=LabSize(iterations=30, tasks=32, seeds=5, points=3, samples=8),
    quick=LabSize(iterations=10, tasks=16, seeds=3, points=1, eval_tasks=16, samples=8),
    settings={"world": "trips", "level": 1, "model": "podium/tiny2"},
)
