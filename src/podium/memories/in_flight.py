"""Partial rollouts: unfinished rollouts that are resumed in a later iteration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.memory import Memory, State, keys
from podium.core.part import Columns
from podium.core.signal import Signal

__all__ = ["InFlight"]


LOGP, ENTROPY = Signal("logp", of="sampler"), Signal("entropy", of="sampler")


class InFlight(Memory):
    """The unfinished rollouts of each task: their tokens so far, with the sampler's log-probabilities and entropies."""

    needs = ("rollout.finished", "rollout.index", "token.id", LOGP, ENTROPY)
    provides = ("group.in_flight", "group.in_flight.count")

    def initial(self) -> State:
        return {"tasks": {}}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        pieces = tuple(state["tasks"].get(task, ()) for task in tasks)
        return {"group.in_flight": pieces, "group.in_flight.count": torch.tensor([float(len(p)) for p in pieces])}

    def observe(self, state: State, batch: Batch) -> State:
        action, counted = batch.action, batch.counted("rollout")
        lengths = batch.partition("token", "rollout").agg.count(action).tolist()
        columns = [batch[name][action].tolist() for name in ("token.id", LOGP, ENTROPY)]
        group, index = batch.link("rollout", "group").tolist(), batch["rollout.index"].tolist()
        waits = ~batch["rollout.finished"] if counted is None else counted & ~batch["rollout.finished"]
        tasks = keys(batch["group.task"])
        unfinished: dict[Any, list[tuple[int, tuple[Any, ...]]]] = {task: [] for task in tasks}
        start = 0
        for row, length in enumerate(lengths):
            piece = tuple(tuple(c[start : start + length]) for c in columns)
            start += length
            if bool(waits[row]):
                unfinished[tasks[group[row]]].append((index[row], piece))
        new = {task: tuple(piece for _, piece in sorted(pieces)) for task, pieces in unfinished.items()}
        merged = {**state["tasks"], **new}  # replaced for the tasks of this batch, unchanged for the others
        return {"tasks": {task: pieces for task, pieces in merged.items() if pieces}}

    def scalars(self, state: State) -> dict[str, float]:
        return {"in_flight": float(sum(len(pieces) for pieces in state["tasks"].values()))}
