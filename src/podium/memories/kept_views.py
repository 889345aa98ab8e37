"""Which views of a task were kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podium.core.batch import Batch
from podium.core.memory import Memory, State
from podium.core.part import Columns

__all__ = ["KeptViews"]


class KeptViews(Memory):
    """`group.views`, the numbers of the views with which a task was trained first; none for a task that is new.

    A strategy that picks views by the model's confidence keeps to its first choice, while the model changes.
    """

    reference = "TPT, https://arxiv.org/abs/2209.07511"

    needs = ("rollout.view",)
    provides = ("group.views",)

    def initial(self) -> State:
        return {"views": {}}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {"group.views": tuple(state["views"].get(task, ()) for task in tasks)}

    def observe(self, state: State, batch: Batch) -> State:
        found: dict[Any, set[int]] = {}
        tasks = batch["group.task"]
        rows = zip(batch.link("rollout", "group").tolist(), batch["rollout.view"].tolist(), strict=True)
        for group, view in rows:
            found.setdefault(tasks[group], set()).add(int(view))
        new = {task: tuple(sorted(views)) for task, views in found.items() if task not in state["views"]}
        return {"views": {**state["views"], **dict(sorted(new.items()))}}
