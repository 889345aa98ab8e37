"""Pass-rate trajectories, by which unlabelled tasks are matched with labelled ones in semi-supervised training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podium.core.batch import Batch
from podium.core.memory import Memory, State, keys
from podium.core.part import Columns

__all__ = ["Trajectories"]


class Trajectories(Memory):
    """The pass-rate trajectory of each task (`group.curve`), and reference trajectories for comparison.

    The references (`batch.references`) are the trajectories of this epoch's labelled tasks, discarded when one of them
    is visited a second time, and those of unlabelled tasks that were ever among the most similar (`group.top`).
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
        with_label, top = (
            {task for task, marked in zip(names, batch[column].tolist(), strict=True) if marked}
            for column in ("group.labelled", "group.top")
        )
        new = {task: (*state["curves"].get(task, ()), seen[task]) for task in sorted(seen, key=str)}
        labelled = {task: new[task] for task in new if task in with_label}
        new_epoch = any(task in state["labelled"] for task in labelled)
        return {
            "curves": state["curves"] | new,
            "labelled": labelled if new_epoch else state["labelled"] | labelled,
            "top": state["top"] | {task: new[task] for task in new if task in top},
        }
