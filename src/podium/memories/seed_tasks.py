"""Tasks that a model can and cannot do, as examples for more of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.memory import Memory, State
from podium.core.part import Columns
from podium.core.text_similarity import rouge_l

__all__ = ["SeedPool", "SeedTasks", "alike_to_any"]


class SeedPool(NamedTuple):
    """Example tasks by label, newest first."""

    feasible: tuple[str, ...]
    infeasible: tuple[str, ...]


def alike_to_any(text: str, others: Sequence[str], limit: float) -> bool:
    """Whether a text equals one of the others, or has a ROUGE-L above the limit with it."""
    return any(text == other or rouge_l(text, other) > limit for other in others)


class SeedTasks(Memory):
    """A pool of example tasks, as many of each label as at the start.

    A task that the model wrote joins if its consensus is at least `threshold` and its majority label is the one that it
    was written for, unless it is alike to one that is there: its ROUGE-L with it exceeds `alike`. New ones come first,
    the oldest leave. `group.seeds` is the pool, `batch.seeds.new` the share of it that the model has written.
    """

    reference = "KnowRL: Teaching Language Models to Know What They Know, arXiv 2510.11407"
    feasible: tuple[str, ...] = ("sum: 9+65", "order: hal > fay, fay > cid", "lamps: e d e", "sum: 31-7+20")
    infeasible: tuple[str, ...] = (
        "sum: 67+75-78-10+47",
        "order: bob > fay, ann > bob, fay > dee, dee > hal, hal > gus",
        "lamps: e b a a e c",
        "sum: 412+305-118+960",
    )
    threshold: float = 0.875  # of the consensus, in [0.5, 1]
    alike: float = 0.9  # ROUGE-L, in [0, 1]; 1: only equal texts are

    needs = tuple(f"rollout.{name}" for name in ("text", "declared", "consensus", "majority", "written", "fresh"))
    provides = ("group.seeds", "batch.seeds.new")

    def __post_init__(self) -> None:
        within(self, "threshold", 0.5, 1)
        within(self, "alike", 0, 1)
        for name, texts in (("feasible", self.feasible), ("infeasible", self.infeasible)):
            if not texts or not all(text.strip() for text in texts):
                raise PodiumError(f"SeedTasks.{name} = {texts!r}: give at least one task, and none that is empty.")
        every = [*self.feasible, *self.infeasible]
        twice = next((text for i, text in enumerate(every) if text in every[:i]), None)
        if twice is not None:
            raise PodiumError(f"SeedTasks names the task {twice!r} twice: give each once, under one label.")

    @property
    def remembers_tasks(self) -> bool:
        return False  # its texts are for all tasks

    def initial(self) -> State:
        return {"feasible": list(self.feasible), "infeasible": list(self.infeasible)}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        pool = SeedPool(tuple(state["feasible"]), tuple(state["infeasible"]))
        given = {*self.feasible, *self.infeasible}
        new = sum(text not in given for texts in pool for text in texts) / sum(map(len, pool))
        return {"group.seeds": (pool,) * len(tasks), "batch.seeds.new": torch.tensor([new])}

    def joins(self, batch: Batch) -> list[bool]:
        """Which rollouts are tasks for the pool, before those are dropped that are alike."""
        written = batch["rollout.written"].bool() & batch["rollout.fresh"].bool()
        agree = batch["rollout.declared"].bool() == batch["rollout.majority"].bool()
        return list((written & agree & (batch["rollout.consensus"] >= self.threshold)).tolist())

    def observe(self, state: State, batch: Batch) -> State:
        declared, joins = batch["rollout.declared"].bool().tolist(), self.joins(batch)
        texts = batch["rollout.text"]
        found = sorted({(str(texts[i]).strip(), declared[i]) for i in range(len(batch)) if joins[i]})
        pool = {name: list(state[name]) for name in ("feasible", "infeasible")}
        new: dict[str, list[str]] = {name: [] for name in pool}
        for text, label in found:
            if not alike_to_any(text, [x for texts in (*pool.values(), *new.values()) for x in texts], self.alike):
                new["feasible" if label else "infeasible"].append(text)
        sizes = {"feasible": len(self.feasible), "infeasible": len(self.infeasible)}
        return {name: [*new[name], *pool[name]][: sizes[name]] for name in pool}
