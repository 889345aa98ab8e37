"""Training-Free GRPO: do experiences in the prompt of a frozen model raise its held-out success?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import QUICK, Lab, LabSize
from podium.labs.reading import Logged, PassAt
from podium.methods import get
from podium.strategies import RuleMiner

__all__ = ["STUDY"]

TEXTS = Logged("experiences", "experiences")

STUDY = Lab(
    "training-free-grpo",
    "Does a list of experiences, mined from groups of rollouts, raise the success of a model that stays as it is?",
    arms={
        "frozen": partial(get, "training-free-grpo", critic=RuleMiner(least=1e9)),
        "experiences": partial(get, "training-free-grpo"),
    },
    claims=(Claim("held-out success rises above the bare frozen model's", PassAt(1), "experiences", "frozen"),),
    readings=(PassAt(1), TEXTS),
    charts=(along(PassAt(1)), along(TEXTS)),
    size=LabSize(iterations=6, tasks=80, points=3, eval_tasks=128, samples=8),
    quick=QUICK.replace(iterations=4, tasks=80, samples=4),
    settings={"world": "sums", "level": 2, "model": "podium/tiny2"},
)
