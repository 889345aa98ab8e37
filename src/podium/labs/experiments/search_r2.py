"""Search-R2: does a refiner that is trained with the actor beat the same reward without one?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import QUICK, Lab, LabSize
from podium.labs.reading import Logged, PassAt
from podium.methods import get

__all__ = ["STUDY"]

REVISED = Logged("watched.revised", "trajectories revised")
GAINED = Logged("watched.gained", "gain of the refiner")
REFINED, ACTOR = "refiner", "no refiner"

STUDY = Lab(
    "search-r2",
    "Where searches miss, does a refiner that is trained with the actor find more answers than the same reward alone?",
    arms={
        REFINED: partial(get, "search-r2"),
        # Even if every trajectory is revised from its middle, three rollouts more cost as many tokens.
        ACTOR: partial(get, "search-r2@actor", n=8),
        "drawn verdicts": partial(get, "search-r2@drawn"),
        "Search-R1": partial(get, "search-r2@search-r1", n=8),
    },
    claims=(Claim("accuracy is above that of the same reward with more rollouts", PassAt(1), REFINED, ACTOR),),
    readings=(PassAt(1), REVISED, GAINED),
    charts=(along(PassAt(1)), along(REVISED), along(GAINED)),
    size=LabSize(iterations=24, points=3, eval_tasks=32, samples=16),
    quick=QUICK.replace(iterations=6, samples=8),
    settings={"world": "lookup", "world_settings": {"level": 2, "miss": 0.3}, "model": "podium/tiny2"},
)
