"""Clinical-R1: do rewards for faithful and complete reasoning make it so, at no cost in accuracy?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import QUICK, Lab, LabSize
from podium.labs.reading import Logged, PassAt
from podium.methods import get

__all__ = ["STUDY"]

FAITHFUL = Logged("watched.faithful", "faithful statements")
COMPLETE = Logged("watched.complete", "needed statements made")

STUDY = Lab(
    "clinical-r1",
    "Do rewards for faithful and complete reasoning make it so, and what do they cost in accuracy?",
    arms={
        "all terms": partial(get, "clinical-r1"),
        "released terms": partial(get, "clinical-r1", faithful=0.0, complete=0.0),
    },
    claims=(
        Claim("the reasoning becomes more faithful", FAITHFUL, "all terms", "released terms"),
        Claim("the reasoning becomes more complete", COMPLETE, "all terms", "released terms"),
        Claim("accuracy is above that without these objectives", PassAt(1), "all terms", "released terms"),
    ),
    readings=(PassAt(1), FAITHFUL, COMPLETE),
    charts=(along(PassAt(1)), along(FAITHFUL), along(COMPLETE)),
    size=LabSize(iterations=24, points=3, eval_tasks=32, samples=16),
    quick=QUICK.replace(iterations=6, samples=8),
    settings={"world": "cases", "level": 1, "model": "podium/tiny2"},
)
