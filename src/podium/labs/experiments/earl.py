"""EARL: does inserting calls of a tool teach its use where no rollout finds it by itself?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import QUICK, Lab, LabSize
from podium.labs.reading import Logged, PassAt
from podium.methods import get

__all__ = ["STUDY"]

REWRITTEN = Logged("watched.rewritten", "rewritten rollouts")

STUDY = Lab(
    "earl",
    "Where answers need a tool that the model hardly ever calls, does inserting calls teach what GRPO does not?",
    arms={
        "earl": partial(get, "earl"),
        "grpo": lambda: get("earl").set("rollout.active", 0.0),
    },
    claims=(Claim("accuracy is above that of GRPO on the same actions", PassAt(1), "earl", "grpo"),),
    readings=(PassAt(1), REWRITTEN),
    charts=(along(PassAt(1)),),
    size=LabSize(iterations=24, points=3, eval_tasks=32, samples=16),
    quick=QUICK.replace(iterations=8, samples=8),
    settings={"world": "calculator", "level": 1, "model": "podium/tiny2"},
)
