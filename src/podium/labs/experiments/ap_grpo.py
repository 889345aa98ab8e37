"""AP-GRPO: do weighted successes and a blind answer teach where to look?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import QUICK, Lab, LabSize
from podium.labs.reading import Logged, PassAt
from podium.methods import get

__all__ = ["STUDY"]

COVERAGE = Logged("coverage", "evidence that was looked at")
INFORMATION = Logged("coverage_information", "information of answers on evidence (nats)")
END = 1_000_000  # reinforcement learning alone, which the claims are about

STUDY = Lab(
    "ap-grpo",
    "Does answering from the chosen regions alone, with successes weighted up and freed from the KL penalty, teach "
    "where to look?",
    arms={
        "ap-grpo": partial(get, "ap-grpo", first=END),
        "grpo": partial(get, "ap-grpo", first=END, strength=0.0),
        "all in view": partial(get, "ap-grpo@shown", first=END),
    },
    claims=(
        Claim("accuracy is above that of equal weights", PassAt(1), "ap-grpo", "grpo"),
        Claim("more of the evidence is looked at than with equal weights", COVERAGE, "ap-grpo", "grpo"),
        Claim("more of the evidence is looked at than with all in view", COVERAGE, "ap-grpo", "all in view"),
        Claim("right answers say more about the evidence than with all in view", INFORMATION, "ap-grpo", "all in view"),
    ),
    readings=(PassAt(1), COVERAGE, INFORMATION),
    charts=(along(PassAt(1)), along(COVERAGE), along(INFORMATION)),
    size=LabSize(iterations=24, points=3, eval_tasks=48, samples=16),
    quick=QUICK.replace(iterations=6, samples=8),
    settings={"world": "zoom", "level": 3, "model": "podium/tiny2"},
)
