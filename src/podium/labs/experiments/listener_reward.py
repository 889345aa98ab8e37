"""Listener reward: do explanations that must convince a listener contradict their answers less often?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import QUICK, Lab, LabSize
from podium.labs.reading import Logged, PassAt
from podium.methods import get

__all__ = ["STUDY"]

DISAGREES = Logged("watched.disagrees", "answers that the listener would not give")
HEARD = Logged("watched.heard", "listener's probability of the right answer")
LISTENER, OUTCOME = "listener", "accuracy and format"

STUDY = Lab(
    "listener-reward",
    "Does paying explanations by how well they convince a frozen listener make answers follow from them, and raise "
    "accuracy?",
    arms={LISTENER: partial(get, "listener-reward"), OUTCOME: partial(get, "listener-reward", weight=0.0)},
    claims=(
        Claim("answers contradict the listener less often", DISAGREES, OUTCOME, LISTENER),
        Claim("accuracy is above that of accuracy and format alone", PassAt(1), LISTENER, OUTCOME),
    ),
    readings=(PassAt(1), DISAGREES, HEARD),
    charts=(along(PassAt(1)), along(DISAGREES), along(HEARD)),
    size=LabSize(iterations=24, points=3, seeds=5, eval_tasks=48, samples=16),
    quick=QUICK.replace(iterations=6, samples=8),
    # Noise shifts the pictures from those that model and listener have seen.
    settings={
        "world": "badges",
        "world_settings": {"level": 4, "ask": "banned", "shift": "noise", "strength": 0.4},
        "model": "podium/tiny2",
    },
)
