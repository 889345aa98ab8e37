"""The hint level of each task and the hints last shown for it."""

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
    """An adaptive hint level per task (`group.hint.level`): raised after failures, lowered after successes.

    One more than at the last visit if at most a share `low` of its rollouts succeeded then, one less if more than
    `high` did, else the same; 0, no hint, at the first visit. The level at the last visit is the one at which the task
    was actually sampled, 0 if there was no hint to show.
    """

    reference = "SAGE: Self-Hinting Language Models Enhance Reinforcement Learning, https://github.com/BaohaoLiao/SAGE"
    low: float = 0.1  # success rates, in [0, 1]; the smaller of the two is the lower threshold
    high: float = 0.35
    most: int = 3  # highest level, ≥ 1

    needs = ("rollout.reward", "rollout.help.level")
    provides = ("group.hint.level",)

    def __post_init__(self) -> None:
        within(self, "low", 0, 1)
        within(self, "high", 0, 1)
        within(self, "most", 1)

    def initial(self) -> State:
        return {"visits": Table(default=(0.0, -1.0))}  # level, share of successes; −1: never seen

    def level(self, before: Tensor, success: Tensor) -> Tensor:
        """The next level after one with this success rate; a negative rate: never seen."""
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
    """The hints that were last shown for each task, weakest first (`group.hints`); empty at first."""

    reference = "SAGE: Self-Hinting Language Models Enhance Reinforcement Learning, https://github.com/BaohaoLiao/SAGE"

    needs = ("rollout.hints",)
    provides = ("group.hints",)

    def initial(self) -> State:
        return {"hints": {}}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {"group.hints": tuple(tuple(state["hints"].get(task, ())) for task in keys(tasks))}

    def observe(self, state: State, batch: Batch) -> State:
        names, group = keys(batch["group.task"]), batch.link("rollout", "group").tolist()
        shown = {(names[row], tuple(hints)) for row, hints in zip(group, batch["rollout.hints"], strict=True) if hints}
        # Two groups of one task may have different hints: the order of the texts decides, not that of the rows.
        return {"hints": state["hints"] | dict(sorted(shown, key=str))}
