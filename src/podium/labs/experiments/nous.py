"""Nous: does rewarding the information in answers find out more with fewer questions?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import QUICK, Lab, LabSize
from podium.labs.reading import Logged, PassAt
from podium.methods import get

__all__ = ["STUDY"]

QUESTIONS = Logged("watched.questions", "questions")
UNCERTAINTY = Logged("watched.uncertainty", "uncertainty left (bits)")
GAIN, OUTCOME = "information gain", "outcome"

STUDY = Lab(
    "nous",
    "Does the entropy that answers remove, as a reward, make a model ask better questions than the outcome does?",
    arms={
        GAIN: partial(get, "nous"),
        "counted": partial(get, "nous@counted"),
        OUTCOME: partial(get, "nous", gain=0.0),
    },
    claims=(
        Claim("fewer questions are asked", QUESTIONS, OUTCOME, GAIN),
        Claim("less uncertainty is left", UNCERTAINTY, OUTCOME, GAIN),
        Claim("accuracy is above that of the outcome alone", PassAt(1), GAIN, OUTCOME),
    ),
    readings=(PassAt(1), QUESTIONS, UNCERTAINTY),
    charts=(along(PassAt(1)), along(QUESTIONS), along(UNCERTAINTY)),
    size=LabSize(iterations=24, points=3, eval_tasks=32, samples=16),
    quick=QUICK.replace(iterations=6, samples=8),
    settings={"world": "clarify", "world_settings": {"level": 2, "compound": True}, "model": "podium/tiny2"},
)
