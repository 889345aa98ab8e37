"""Pairs whose winners are longer: do preferences teach length?

On such pairs both methods first gain and then lose pass@1: the form alone tells the winner, and the results of right
sums, which both sides have in common, become unlikely with the loser. Arms with pairs of one form, and with the
likelihood of the winners as a further term, show that; they were added once the claims had been measured.
"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import BASE_LABEL, QUICK, Lab, LabSize
from podium.labs.notes import differs
from podium.labs.reading import Mean, PassAt
from podium.methods import get

__all__ = ["STUDY"]

LENGTH = Mean("length", "tokens")
# The right attempt is written at length, the wrong one briefly.
LONG = {"source": "world", "styles": ("long", "short"), "mini_batches": 4}
ALIKE = {**LONG, "styles": ("short", "short")}

STUDY = Lab(
    "simpo",
    "Do preferences between a long right answer and a short wrong one teach to be right, or to be long?",
    arms={
        "dpo": partial(get, "dpo", **LONG),
        "simpo": partial(get, "simpo", **LONG),
        "simpo, no margin": partial(get, "simpo", ratio=0.0, **LONG),
        "simpo, likelihood": partial(get, "simpo", sft=1.0, **LONG),
        "dpo, one form": partial(get, "dpo", **ALIKE),
        "simpo, one form": partial(get, "simpo", **ALIKE),
    },
    claims=(
        Claim("SimPO raises pass@1", PassAt(1), "simpo", BASE_LABEL),
        Claim("DPO ends with longer answers than SimPO", LENGTH, "dpo", "simpo"),
    ),
    readings=(PassAt(1), LENGTH),
    notes=(
        differs(PassAt(1), "simpo, likelihood", BASE_LABEL),
        differs(PassAt(1), "dpo, one form", "dpo"),
        differs(PassAt(1), "simpo, one form", "simpo"),
    ),
    charts=(along(PassAt(1)), along(LENGTH)),
    size=LabSize(iterations=24, points=3, samples=16),
    quick=QUICK.replace(iterations=8, samples=8),
    settings={"world": "sums", "level": 2},
)
