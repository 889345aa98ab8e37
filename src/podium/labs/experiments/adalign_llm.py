"""AdAlign-LLM: does alignment cooperate in self-play where naive training defects?"""

from __future__ import annotations

from functools import partial

from podium.labs.charts import along
from podium.labs.findings import Claim
from podium.labs.lab import QUICK, Lab, LabSize
from podium.labs.reading import Logged, PassAt
from podium.methods import get

__all__ = ["STUDY"]

TOGETHER = Logged("reward", "points of both agents in a game")

STUDY = Lab(
    "adalign-llm",
    "Iterated prisoner's dilemma in self-play: does advantage alignment cooperate where naive training defects?",
    arms={
        "aligned": partial(get, "adalign-llm"),
        "naive": partial(get, "adalign-llm@naive"),
        "sum of rewards": partial(get, "adalign-llm@sum"),
    },
    claims=(
        Claim("alignment cooperates more than naive training", PassAt(1), "aligned", "naive"),
        Claim("naive training cooperates less than the model it starts from", PassAt(1), "base", "naive"),
        Claim("the sum of rewards cooperates more than naive training", PassAt(1), "sum of rewards", "naive"),
    ),
    readings=(PassAt(1), TOGETHER),
    charts=(along(PassAt(1)), along(TOGETHER)),
    size=LabSize(iterations=40, points=4, eval_tasks=16, samples=16),
    quick=QUICK.replace(iterations=8, tasks=4, seeds=3, eval_tasks=8, samples=8),
    settings={"world": "dilemma", "level": 1, "model": "podium/tiny2"},
)
