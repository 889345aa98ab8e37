"""RLCF: does a frozen scorer's feedback on one input at a time correct more answers than minimising entropy?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial
from podium.methods import get
from podium.sessions.adapt import adapt

__all__ = ["STUDY", "AdaptSize"]

RIGHT = Quantity("right", "accuracy", (0.0, 1.0))
RESTORED = Quantity("restored", "weights put back", (0.0, 1.0))
RATE, NOISE = 1e-3, 0.4  # the learning rate, and the strength of the noise
BEYOND = 1000  # tasks before this number are for choosing settings; each seed has tasks of its own from here on


class AdaptSize(StudySize):
    """How many held-out tasks, with how many views of each, and steps on each."""

    tasks: int = 100
    views: int = 1  # on noisy digits of this size, moved pictures mislead the model, so that views hurt both rivals
    steps: int = 3


def _arm(reward: str, adapted: bool, seed: int, size: AdaptSize) -> Mapping[str, Any]:
    """The answers to noisy digits that were never trained on, after a few steps on each, without its label."""
    views = size.views if adapted else 1
    method = get(reward, views=views, share=min(2 / views, 1.0))
    found = adapt(
        method,
        tasks=size.tasks,
        steps=size.steps if adapted else 1,
        first=BEYOND * (1 + seed),
        world="digits",
        world_settings={"level": 1, "shift": "noise", "strength": NOISE},
        model="podium/tiny2",
        seed=seed,
        lr=RATE,
    )
    after = [task.right_after if adapted else task.right_before for task in found.tasks]
    return {"right": np.array(after, float), "restored": np.array([task.restored for task in found.tasks], float)}


ZERO, ENTROPY, RLCF = "zero-shot", "entropy", "rlcf"

STUDY = Trial(
    "rlcf",
    "Does a frozen scorer's feedback on one input at a time correct more answers than minimising entropy?",
    arms={
        ZERO: partial(_arm, "rlcf", False),
        ENTROPY: partial(_arm, "rlcf@entropy", True),
        RLCF: partial(_arm, "rlcf", True),
    },
    claims=(
        Claim("accuracy is above that without adaptation", RIGHT, RLCF, ZERO),
        Claim("accuracy is above that of minimising entropy", RIGHT, RLCF, ENTROPY),
        Claim("minimising entropy is above no adaptation", RIGHT, ENTROPY, ZERO),
    ),
    readings=(RIGHT, RESTORED),
    size=AdaptSize(seeds=3),
    quick=AdaptSize(seeds=2, tasks=16),
)
