"""Pairs whose winners are longer: do preferences teach length?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import BASE_LABEL, QUICK, Lab, LabSize
from podium.labs.reading import Mean, PassAt
from podium.methods import get

__all__ = ["STUDY"]

LENGTH = Mean("length", "tokens")
# The right attempt is written at length, the wrong one briefly.
LONG = {"source": "world", "styles": ("long", "short"), "mini_batches": 4}

STUDY = Lab(
    "simpo",
    "Do preferences between a long right answer and a short wrong one teach to be right, or to be long?",
    arms={
        "dpo": partial(get, "dpo", **LONG),
        "simpo": partial(get, "simpo", **LONG),
        "simpo, no margin": partial(get, "simpo", ratio=0.0, **LONG),
    },
    claims=(
        Claim("SimPO raises pass@1", PassAt(1), "simpo", BASE_LABEL),
        Claim("DPO ends with longer answers than SimPO", LENGTH, "dpo", "simpo"),
    ),
    readings=(PassAt(1), LENGTH),
    charts=(along(PassAt(1)), along(LENGTH)),
    size=LabSize(iterations=24, points=3, samples=16),
    quick=QUICK.replace(iterations=8, samples=8),
    settings={"world": "sums", "level": 2},
)
