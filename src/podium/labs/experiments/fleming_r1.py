"""Fleming-R1: does mining failures teach the hard tier more than going on with the easier ones?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from podium.evaluation.resample import Array
from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import QUICK, Lab, LabSize
from podium.labs.reading import Logged, PassAt, RunReading, Snapshot
from podium.methods import get
from podium.worlds import Cases

__all__ = ["STUDY", "TierPass"]

WORLD = Cases(level=1)


@dataclass(frozen=True)
class TierPass(RunReading):
    """pass@1 on the held-out cases of one tier."""

    bounds = (0.0, 1.0)
    tier: str

    def label(self, samples: int) -> str:
        return f"pass@1, {self.tier}"

    def columns(self, base: Snapshot, now: Snapshot) -> Array:
        passed = now.tally.passed(1)
        inside = np.array([WORLD.task(i, "test").domain == self.tier for i in range(len(passed))], dtype=float)
        return np.stack([passed * inside, inside], axis=-1)


HARD = TierPass("difficult")
FLAT = Logged("flat_groups", "groups without signal")

STUDY = Lab(
    "fleming-r1",
    "After the easier tiers: does mining failures teach the hard tier more than going on with the easier ones?",
    arms={
        "two stages": partial(get, "fleming-r1"),
        "stage 1 goes on": partial(get, "fleming-r1", rounds=()),
    },
    claims=(
        Claim("stage 2 raises the difficult tier more", HARD, "two stages", "stage 1 goes on"),
        Claim("it raises the average, too", PassAt(1), "two stages", "stage 1 goes on"),
    ),
    readings=(PassAt(1), HARD, TierPass("easy"), FLAT),
    charts=(along(PassAt(1)), along(HARD), along(FLAT)),
    size=LabSize(iterations=30, points=2, eval_tasks=48, samples=16),
    quick=QUICK.replace(iterations=10, eval_tasks=24, samples=8),
    settings={"world": "cases", "level": WORLD.level, "pool": 32, "model": "podium/tiny2"},
)
