"""GRPO-TCR: what do its three letters, token mean, clip-higher and reward shaping, each add to GRPO?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import QUICK, Lab, LabSize
from podium.labs.reading import Mean, PassAt
from podium.methods import get

__all__ = ["STUDY"]

ENTROPY = Mean("token_entropy", "nats")
PLAIN = {"step": 0.0, "cap": -1.0, "penalty": 0.0}
SEQUENCES = "token mean, rollout mean"

STUDY = Lab(
    "grpo-tcr",
    "Do a token-level loss, a higher upper clip and a shaped reward keep entropy up and raise accuracy in tool use?",
    arms={
        "tcr": partial(get, "grpo-tcr"),
        "without T": partial(get, "grpo-tcr", aggregate=SEQUENCES),
        "without C": partial(get, "grpo-tcr", clip_high=0.2),
        "without R": partial(get, "grpo-tcr", **PLAIN),
        "grpo": partial(get, "grpo-tcr", aggregate=SEQUENCES, clip_high=0.2, dual=None, **PLAIN),
    },
    claims=(
        Claim("pass@1 is above GRPO's", PassAt(1), "tcr", "grpo"),
        Claim("entropy stays above GRPO's", ENTROPY, "tcr", "grpo"),
    ),
    readings=(PassAt(1), PassAt(), ENTROPY),
    charts=(along(PassAt(1)), along(ENTROPY)),
    size=LabSize(iterations=24, points=3, eval_tasks=32, samples=16),
    quick=QUICK.replace(iterations=4, tasks=4, samples=4),
    settings={"world": "tools", "level": 2, "max_tokens": 64},
)
