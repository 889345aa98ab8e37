"""SPARKLE: do scaffolded starts make problems useful that the model never solves?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import QUICK, Lab, LabSize
from podium.labs.reading import Logged, PassAt
from podium.methods import get

__all__ = ["STUDY"]

FLAT = Logged("flat_groups", "groups without signal")

STUDY = Lab(
    "sparkle",
    "Do hard problems that begin with a part of their solution raise held-out success above more of stage 1?",
    arms={
        "stage 1 continued": partial(get, "sparkle", first=1_000_000),
        "scaffolds": partial(get, "sparkle"),
    },
    claims=(Claim("held-out success is higher", PassAt(1), "scaffolds", "stage 1 continued"),),
    readings=(PassAt(1), FLAT),
    charts=(along(PassAt(1)), along(FLAT)),
    size=LabSize(iterations=24, points=3, eval_tasks=128, samples=8),
    quick=QUICK.replace(iterations=8, samples=4),
    settings={"world": "rules", "level": 5},
)
