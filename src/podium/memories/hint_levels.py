"""How much help each task gets, remembered from visit to visit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State, Table, keys
from podium.core.part import Columns

__all__ = ["HintLevels", "LastHints"]


class HintLevels(Memory):
    """`group.hint.level`: one more than at the task's last visit if at most `low` of its rollouts succeeded then, one
    less if more than `high` did, else the same; 0, no hint, at the first visit. What counts is the level at which the
    task was sampled then: 0 where there was no hint to show.
    """

    reference = "SAGE: Self-Hinting Language Models Enhance Reinforcement Learning, https://github.com/BaohaoLiao/SAGE"
    low: float = 0.1
    high: float = 0.35  # the smaller of the two is the lower threshold
    most: int = 3  # level

    needs = ("rollout.reward", "rollout.help.level")
    provides = ("group.hint.level",)

    def __post_init__(self) -> None:
        within(self, "low", 0, 1)
        within(self, "high", 0, 1)
        within(self, "most", 1)

    def initial(self) -> State:
        return {"visits": Table(default=(0.0, -1.0))}  # level, share of successes; −1: never seen

    def level(self, before: Tensor, success: Tensor) -> Tensor:
        """The next level after one at which so many succeeded; a negative share: never seen."""
        low, high = sorted((self.low, self.high))
        step = (success <= low).to(before.dtype) - (success > high).to(before.dtype)
        return (before + step).clamp(0, self.most).where(success >= 0, 0)

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        before, success = state["visits"].read(tasks, torch.float64).unbind(1)
        return {"group.hint.level": self.level(before, success)}

    def observe(self, state: State, batch: Batch) -> State:
        # Two groups of one task are one visit of it; a task without a rollout that counts was not seen.
        tasks, right = batch["group.task"], (batch["rollout.reward"] > 0).double()
        rollouts, groups = batch.by("rollout", "group.task"), batch.partition("rollout", "group").agg
        success = groups.max(rollouts.mean(right)).cpu()
        seen = groups.any(rollouts.count() > 0).cpu()
        level = groups.max(rollouts.max(batch["rollout.help.level"].double())).cpu()
        before = state["visits"].read(tasks, torch.float64)
        after = torch.where(seen[:, None], torch.stack([level, success], dim=1), before)
        return {"visits": state["visits"].write(tasks, after)}


class LastHints(Memory):
    """`group.hints`: the hints that were last shown for a task, the weakest first; none before the first."""

    reference = "SAGE: Self-Hinting Language Models Enhance Reinforcement Learning, https://github.com/BaohaoLiao/SAGE"

    needs = ("rollout.hints",)
    provides = ("group.hints",)

    def initial(self) -> State:
        return {"hints": {}}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {"group.hints": tuple(tuple(state["hints"].get(task, ())) for task in keys(tasks))}

    def observe(self, state: State, batch: Batch) -> State:
        names, group = keys(batch["group.task"]), batch.link("rollout", "group").tolist()
        found = {(names[row], tuple(hints)) for row, hints in zip(group, batch["rollout.hints"], strict=True) if hints}
        # Two groups of one task may have different hints: the order of the texts decides, not that of the rows.
        return {"hints": state["hints"] | dict(sorted(found, key=str))}
