"""Information-consistent GRPO: does the stability reward make answers to equivalent phrasings alike?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import QUICK, Lab, LabSize
from podium.labs.reading import Logged, PassAt
from podium.methods import get

__all__ = ["STUDY"]

GAP = Logged("phrasing_gap", "gap between phrasings (nats)")
INFORMATION = Logged("information", "information (nats)")

STUDY = Lab(
    "info-consistent-grpo",
    "Does a reward for equal information make answers to equivalent phrasings alike, and does its form matter?",
    arms={
        "each pair": partial(get, "info-consistent-grpo"),
        "mean of the group": partial(get, "info-consistent-grpo", spread="group"),
        "no stability": partial(get, "info-consistent-grpo", stability=0.0),
    },
    claims=(
        Claim("rewarding stability narrows the gap between phrasings", GAP, "no stability", "each pair"),
        Claim("rewarding each pair narrows it more than the group's mean", GAP, "mean of the group", "each pair"),
    ),
    readings=(PassAt(1), GAP, INFORMATION),
    charts=(along(GAP), along(PassAt(1)), along(INFORMATION)),
    size=LabSize(iterations=24, points=3, eval_tasks=32, samples=16),
    quick=QUICK.replace(iterations=6, samples=8),
    settings={"world": "shop", "level": 3, "model": "podium/tiny2"},
)
