"""TODO Tasks without labels that learn like tasks with labels: their rates of success over time have the same shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podium.core.batch import Batch
from podium.core.memory import Memory, State, keys
from podium.core.part import Columns

__all__ = ["Trajectories"]


class Trajectories(Memory):
    """The rate of success of each task at each of its visits, and the curves that others are compared with.

    These are the curves of labelled tasks in this epoch, which are forgotten when one of them comes a second time, and
    those of unlabelled tasks that were ever among the most similar.
    """

    reference = "TraPO: Semi-Supervised RLVR, https://github.com/ShenzhiYang2000/TRAPO"

    needs = ("rollout.reward", "group.labelled", "group.top")
    provides = ("group.curve", "batch.references")

    def initial(self) -> State:
        return {"curves": {}, "labelled": {}, "top": {}}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        references = (*state["labelled"].values(), *state["top"].values())
        return {
            "group.curve": tuple(tuple(state["curves"].get(task, ())) for task in keys(tasks)),
            "batch.references": (tuple(map(tuple, references)),),
        }

    def observe(self, state: State, batch: Batch) -> State:
        names = keys(batch["group.task"])
        # Two groups of one task are one visit of it.
        rate = batch.partition("rollout", "group").agg.max(
            batch.by("rollout", "group.task").mean(batch["rollout.reward"])
        )
        seen = dict(zip(names, rate.tolist(), strict=True))
        given, best = (
            {task for task, marked in zip(names, batch[column].tolist(), strict=True) if marked}
            for column in ("group.labelled", "group.top")
        )
        new = {task: (*state["curves"].get(task, ()), seen[task]) for task in sorted(seen, key=str)}
        own = {task: new[task] for task in new if task in given}
        again = any(task in state["labelled"] for task in own)
        return {
            "curves": state["curves"] | new,
            "labelled": own if again else state["labelled"] | own,
            "top": state["top"] | {task: new[task] for task in new if task in best},
        }
