"""MultiRole-R1: does a reward for diverse text raise accuracy as well as diversity?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import QUICK, Lab, LabSize
from podium.labs.reading import Logged, Mean, PassAt
from podium.methods import get

__all__ = ["STUDY"]

DIVERSITY = Logged("diversity", "diversity of the text")
LENGTH = Mean("length", "tokens")

STUDY = Lab(
    "multirole-r1",
    "After imitation of role chains: does a reward for diverse text raise accuracy as well as diversity?",
    arms={
        "accuracy and diversity": partial(get, "multirole-r1"),
        "accuracy alone": partial(get, "multirole-r1", diversity=0.0),
    },
    claims=(
        Claim("the text becomes more diverse", DIVERSITY, "accuracy and diversity", "accuracy alone"),
        Claim("accuracy becomes higher, too", PassAt(1), "accuracy and diversity", "accuracy alone"),
    ),
    readings=(PassAt(1), DIVERSITY, LENGTH),
    charts=(along(PassAt(1)), along(DIVERSITY), along(LENGTH)),
    size=LabSize(iterations=24, points=3, eval_tasks=32, samples=16),
    quick=QUICK.replace(iterations=6, samples=8),
    settings={"world": "opinions", "level": 1, "model": "podium/tiny2"},
)
