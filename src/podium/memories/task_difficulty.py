"""The difficulty of each task relative to recent rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State, Table
from podium.core.part import Columns

__all__ = ["TaskDifficulty"]


class TaskDifficulty(Memory):
    """The relative difficulty of each task, `group.difficulty`: the mean reward of the last `window` iterations minus
    that of the task at its last visit.

    Positive for harder tasks; 0 for a task that was never seen.
    """

    reference = "DeepVideo-R1: Difficulty-aware Regressive GRPO, https://github.com/mlvlab/DeepVideoR1"
    window: int = 16  # iterations, ≥ 1

    needs = ("rollout.reward",)
    provides = ("group.difficulty",)

    def __post_init__(self) -> None:
        within(self, "window", 1)

    def initial(self) -> State:
        return {"tasks": Table(default=(float("nan"),)), "means": []}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        last = state["tasks"].read(tasks, torch.float64)[:, 0]
        usual = sum(state["means"]) / len(state["means"]) if state["means"] else 0.0
        return {"group.difficulty": (usual - last).nan_to_num(nan=0.0)}

    def observe(self, state: State, batch: Batch) -> State:
        tasks, reward = batch["group.task"], batch["rollout.reward"].double()
        rollouts, groups = batch.by("rollout", "group.task"), batch.partition("rollout", "group").agg
        seen = groups.any(rollouts.count() > 0).cpu()
        before = state["tasks"].read(tasks, torch.float64)[:, 0]
        after = torch.where(seen, groups.max(rollouts.mean(reward)).cpu(), before)
        overall = batch.by("rollout").agg
        means = [float(overall.mean(reward)[0])] if int(overall.count()[0]) else []
        return {
            "tasks": state["tasks"].write(tasks, after[:, None]),
            "means": [*state["means"], *means][-self.window :],
        }
