"""ReSeek: does a reward for judging results beat the reward of the answer alone?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import QUICK, Lab, LabSize
from podium.labs.reading import Logged, PassAt
from podium.methods import get

__all__ = ["STUDY"]

MATCHED = Logged("watched.matched", "ideal judgements")
TURNS = Logged("turns", "turns")
JUDGED, ANSWERS = "judgements rewarded", "answers alone"

STUDY = Lab(
    "reseek",
    "Where searches miss, does rewarding the judgement of each result make judgements and answers better?",
    arms={
        JUDGED: partial(get, "reseek"),
        "their mean": partial(get, "reseek@mean"),
        ANSWERS: partial(get, "reseek", match=0.0, accepted=0.0, rejected=0.0),
    },
    claims=(
        Claim("accuracy is above that of the answer's reward alone", PassAt(1), JUDGED, ANSWERS),
        Claim("judgements are ideal more often", MATCHED, JUDGED, ANSWERS),
    ),
    readings=(PassAt(1), MATCHED, TURNS),
    charts=(along(PassAt(1)), along(MATCHED)),
    size=LabSize(iterations=24, points=3, eval_tasks=32, samples=16),
    quick=QUICK.replace(iterations=6, samples=8),
    settings={
        "world": "lookup",
        "world_settings": {"level": 1, "judge": True, "miss": 0.3},
        "model": "podium/tiny2",
    },
)
