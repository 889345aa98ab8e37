"""IKEA: does the reward for the boundary of knowledge spare needless searches, at no cost in accuracy?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import QUICK, Lab, LabSize
from podium.labs.reading import Logged, PassAt
from podium.methods import get

__all__ = ["STUDY"]

NEEDLESS = Logged("needless", "needless searches")
UNSEARCHED = Logged("unsearched", "needed searches left out")
BOUNDARY, ANSWERS = "knowledge boundary", "right answers alone"

STUDY = Lab(
    "ikea",
    "Does a bonus that shrinks with each search spare the searches for what is known, and keep the others?",
    arms={BOUNDARY: partial(get, "ikea"), ANSWERS: partial(get, "ikea@search-r1")},
    claims=(
        Claim("needless searches become fewer", NEEDLESS, ANSWERS, BOUNDARY),
        Claim("accuracy is above that of right answers alone", PassAt(1), BOUNDARY, ANSWERS),
    ),
    readings=(PassAt(1), NEEDLESS, UNSEARCHED),
    charts=(along(PassAt(1)), along(NEEDLESS), along(UNSEARCHED)),
    size=LabSize(iterations=24, points=3, eval_tasks=32, samples=16),
    quick=QUICK.replace(iterations=6, samples=8),
    settings={"world": "lookup", "level": 1, "model": "podium/tiny2"},
)
