"""EARL for videos: does a reward for pure evidence make the model pick less and answer better?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import QUICK, Lab, LabSize
from podium.labs.reading import Logged, PassAt
from podium.methods import get

__all__ = ["STUDY"]

IOU = Logged("watched.overlap", "IoU of picks and evidence")
OUTCOME = {"action": (0.0, 0.0), "relevance": (0.0, 0.0), "threshold": 0.0}

STUDY = Lab(
    "earl-video",
    "Does paying for the purity of evidence, less for acting and more for purity later on, raise IoU and accuracy?",
    arms={
        "earl-video": partial(get, "earl-video", imitate=0),
        "outcome": partial(get, "earl-video", imitate=0, **OUTCOME),
        "without condition": partial(get, "earl-video@unconditional", imitate=0),
        "fixed weights": partial(get, "earl-video@fixed", imitate=0),
    },
    claims=(
        Claim("evidence is purer than with the outcome alone", IOU, "earl-video", "outcome"),
        Claim("accuracy is above that of the outcome alone", PassAt(1), "earl-video", "outcome"),
        Claim("accuracy is above that without the IoU condition", PassAt(1), "earl-video", "without condition"),
        Claim("accuracy is above that of fixed weights", PassAt(1), "earl-video", "fixed weights"),
    ),
    readings=(PassAt(1), IOU),
    charts=(along(PassAt(1)), along(IOU)),
    size=LabSize(iterations=24, points=3, eval_tasks=48, samples=16),
    quick=QUICK.replace(iterations=6, samples=8),
    settings={"world": "clips", "level": 2, "model": "podium/tiny2"},
)
