"""Intrinsic rewards from labelled captions, where the world rewards the end alone."""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import BASE_LABEL, QUICK, Lab, LabSize
from podium.labs.reading import Logged, PassAt
from podium.methods import get

__all__ = ["STUDY"]

STATES = Logged("states_visited", "different states that a rollout visits")
NOISE = 0.1  # the share of the annotator's labels that are wrong

STUDY = Lab(
    "oni",
    "Do labels of captions, given while the agent plays, help where the world rewards the end alone?",
    arms={
        "extrinsic only": partial(get, "oni@extrinsic"),
        "oni": partial(get, "oni", noise=NOISE),
        "oni, classifier": partial(get, "oni@classification", noise=NOISE),
        "oni, reward-free": partial(get, "oni@reward-free", noise=NOISE),
        "oni, no counts": partial(get, "oni", noise=NOISE, exponent=0.0),
    },
    claims=(
        Claim("labelled captions end with a higher pass@1 than without", PassAt(1), "oni", "extrinsic only"),
        Claim("captions alone, without the world's reward, raise pass@1", PassAt(1), "oni, reward-free", BASE_LABEL),
        Claim("captions alone lead to more states than the reward", STATES, "oni, reward-free", "extrinsic only"),
    ),
    readings=(PassAt(1), STATES),
    charts=(along(PassAt(1)), along(STATES)),
    size=LabSize(iterations=24, points=3, samples=16),
    quick=QUICK.replace(iterations=3, tasks=4, seeds=2, eval_tasks=8, samples=4),
    settings={"world": "keydoor", "level": 4, "world_settings": {"progress": True}, "pool": 16},
)
