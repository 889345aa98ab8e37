"""Preferences by regret and by return, with a language model that is trained on them."""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import BASE_LABEL, QUICK, Lab, LabSize
from podium.labs.reading import PassAt
from podium.methods import get

__all__ = ["STUDY"]

STUDY = Lab(
    "cpl-labels",
    "Do preferences by regret teach more than preferences by return, on segments that seldom reach a reward?",
    arms={
        "regret": partial(get, "cpl"),
        "return": partial(get, "cpl@return"),
    },
    claims=(
        Claim("CPL on regret labels raises pass@1", PassAt(1), "regret", BASE_LABEL),
        Claim("regret labels end with a higher pass@1 than return labels", PassAt(1), "regret", "return"),
    ),
    readings=(PassAt(1),),
    charts=(along(PassAt(1)),),
    size=LabSize(iterations=24, points=3, samples=16),
    quick=QUICK.replace(iterations=10, samples=8),
    settings={"world": "keydoor", "level": 2},
)
