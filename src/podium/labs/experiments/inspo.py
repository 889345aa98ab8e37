"""INSPO: does a population of instructions raise success above GRPO under the first instruction?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import QUICK, Lab, LabSize
from podium.labs.reading import Logged, PassAt
from podium.methods import get

__all__ = ["STUDY"]

BEST = Logged("instructions.best", "probability of the best instruction")
START = ("answer at once",)

STUDY = Lab(
    "inspo",
    "Do instructions that compete and evolve give more success than GRPO under the instruction they start from?",
    arms={
        "one instruction": partial(get, "inspo", start=(START,), most=1),
        "instructions evolve": partial(get, "inspo", start=(START,)),
    },
    claims=(Claim("held-out success is higher", PassAt(1), "instructions evolve", "one instruction"),),
    readings=(PassAt(1), BEST),
    charts=(along(PassAt(1)), along(BEST)),
    size=LabSize(iterations=24, points=3, eval_tasks=128, samples=8),
    quick=QUICK.replace(iterations=8, samples=4),
    settings={"world": "lookup", "level": 1, "model": "podium/tiny2"},
)
