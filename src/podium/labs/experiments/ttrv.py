"""TTRV: does a model adapt to pictures under a shift by voting on them, without labels?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import BASE_LABEL, QUICK, Lab, LabSize
from podium.labs.reading import Mean, PassAt
from podium.methods import get

__all__ = ["STUDY"]

STUDY = Lab(
    "ttrv",
    "Does training on twenty unlabelled pictures under a shift raise accuracy on all held-out pictures?",
    arms={"soft votes": partial(get, "ttrv"), "hard votes": partial(get, "ttrl")},
    claims=(
        Claim("accuracy is above that before training", PassAt(1), "soft votes", BASE_LABEL),
        Claim("accuracy is above that of hard votes", PassAt(1), "soft votes", "hard votes"),
    ),
    readings=(PassAt(1), PassAt(), Mean("answer_entropy", "nats")),
    charts=(along(PassAt(1)), along(Mean("answer_entropy", "nats"))),
    size=LabSize(iterations=16, n=32, tasks=10, seeds=5, points=4, eval_tasks=96, samples=16),
    quick=QUICK.replace(iterations=6, n=16, eval_tasks=32, samples=8),
    settings={
        "world": "digits",
        "world_settings": {"level": 1, "shift": "noise", "strength": 0.3, "unlabelled": True, "images": 20},
        "model": "podium/tiny2",
    },
)
