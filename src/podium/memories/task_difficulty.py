"""The difficulty of each task relative to recent rewards, and what solved it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State, Table, keys
from podium.core.part import Columns

__all__ = ["RightTexts", "TaskDifficulty"]


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


class RightTexts(Memory):
    """The last right answer to each task that was written without help, `group.right_text`; empty before the first.

    Of several in one iteration the shortest is stored, of equally long ones the first in the alphabet.
    """

    reference = "DeepVideo-R1: Difficulty-aware Regressive GRPO, https://github.com/mlvlab/DeepVideoR1"

    needs = ("rollout.correct", "rollout.text", "rollout.guided")
    provides = ("group.right_text",)

    def initial(self) -> State:
        return {"texts": {}}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {"group.right_text": tuple(state["texts"].get(task, "") for task in keys(tasks))}

    def observe(self, state: State, batch: Batch) -> State:
        counted, own = batch.counted("rollout"), batch["rollout.correct"].bool() & ~batch["rollout.guided"].bool()
        own = own if counted is None else own & counted
        tasks, group = keys(batch["group.task"]), batch.link("rollout", "group").tolist()
        new: dict[Any, list[str]] = {}
        for row in own.nonzero().reshape(-1).tolist():
            new.setdefault(tasks[group[row]], []).append(str(batch["rollout.text"][row]))
        best = {task: min(texts, key=lambda text: (len(text), text)) for task, texts in new.items()}
        return {"texts": state["texts"] | best}
