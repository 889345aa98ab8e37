"""Pass rates of a weak and a strong model, against which the difficulty of tasks is judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.memory import Memory, State, keys
from podium.core.part import Columns
from podium.memories.pass_rates import logged_rates, observed_rates

__all__ = ["ModelRates"]


class ModelRates(Memory):
    """The pass rate of each task under a weak model (`group.rate.weak`) and a strong one (`group.rate.strong`).

    Each comes from the logs of a run by that model, the mean over its visits. Without a run, the weak model is the
    policy when it first meets the task, and the strong one solves everything. A task that is not in the logs, or has
    not been met, counts as one that the weak model fails and the strong one solves.
    """

    reference = "Guru, https://github.com/LLM360/Reasoning360"
    sees_dropped = True
    weak: str | None = None  # the directory of a run by the weak model
    strong: str | None = None  # the directory of a run by the strong model

    needs = ("rollout.correct",)
    provides = ("group.rate.weak", "group.rate.strong")
    read_by_loop = ("weak", "strong")

    def initial(self) -> State:
        return {"weak": _means(self.weak), "strong": _means(self.strong)}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        names = keys(tasks)
        return {
            "group.rate.weak": torch.tensor([state["weak"].get(t, 0.0) for t in names], dtype=torch.float64),
            "group.rate.strong": torch.tensor([state["strong"].get(t, 1.0) for t in names], dtype=torch.float64),
        }

    def observe(self, state: State, batch: Batch) -> State:
        if self.weak is not None:
            return state
        return {**state, "weak": {**observed_rates(batch), **state["weak"]}}


def _means(source: str | None) -> dict[Any, float]:
    """By task, the mean of the pass rates that a run has logged; nothing without one."""
    rates = {} if source is None else logged_rates(Path(source))
    return {task: sum(visits) / len(visits) for task, visits in rates.items()}
