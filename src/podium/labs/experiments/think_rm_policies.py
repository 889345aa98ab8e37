"""Policies from the same verdicts on pairs: by differences, and by the share of pairs that each answer has won."""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import Lab, LabSize
from podium.labs.reading import Logged, Mean, PassAt
from podium.method import Method
from podium.methods import get
from podium.parts.metric import ReportMean

__all__ = ["STUDY"]

QUALITY = Logged("watched.quality", "hidden quality")


def by_credit(credit: str) -> Method:
    """Every pair of a group is judged once; credit by pairs or by points."""
    return get("think-rm", n=8, credit=credit) | ReportMean("rollout.quality")


STUDY = Lab(
    "think-rm-policies",
    "Does credit straight from pairwise verdicts train a better policy than win rates do?",
    arms={"pairs": partial(by_credit, "pairs"), "points": partial(by_credit, "points")},
    claims=(
        Claim("more of the held-out plans are good with pairs", PassAt(1), "pairs", "points"),
        Claim("the hidden quality is higher with pairs", QUALITY, "pairs", "points"),
    ),
    readings=(PassAt(1), QUALITY, Mean("length", "tokens")),
    charts=(along(PassAt(1)), along(QUALITY)),
    size=LabSize(iterations=30, tasks=32, seeds=5, points=3, samples=8),
    quick=LabSize(iterations=4, tasks=8, seeds=2, points=1, eval_tasks=16, samples=8),
    settings={"world": "trips", "level": 1, "model": "podium/tiny2"},
)
