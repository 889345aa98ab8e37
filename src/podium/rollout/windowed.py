"""Windows: each iteration writes a bounded piece of every rollout, and what is not finished goes on in the next one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State, keys
from podium.core.part import Columns, Need, Select, Strategy
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.rollout.plan import Plan, Play, TaskRequest, Wave, Written

__all__ = ["InFlight", "ResumeFirst", "Windowed"]

LOGP, ENTROPY = Signal("logp", of="sampler"), Signal("entropy", of="sampler")


class Windowed(Strategy):
    """At most `window` new tokens of each rollout: `n` new ones of a task, or those of it that are not finished.

    `token.new` says which tokens this iteration wrote, `rollout.finished` whether the rollout has ended, by itself or
    at the run's limit. What is not finished has no outcome, and waits in `InFlight`.
    """

    reference = "Truncated Proximal Policy Optimization (T-PPO)"
    n: int = 1
    window: int = 8192  # tokens
    temperature: Number = 1.0
    top_p: Number = 1.0

    needs = ("group.in_flight",)
    provides = ("rollout.finished", "token.new")

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "window", 1)
        within(self, "temperature", 0, open_low=True)
        within(self, "top_p", 0, 1, open_low=True)

    def plan(self, task: TaskRequest) -> Plan:
        sampling = dataclasses.replace(task.sampling, temperature=self.temperature, top_p=self.top_p)
        pieces = task.known.get("group.in_flight", ())
        begun = [Written(ids, logp, {"entropy": entropy}) for ids, logp, entropy in pieces] or [Written()] * self.n
        play = Play(task, sampling=sampling, window=self.window)
        wave: Wave = [dataclasses.replace(play, first=i, begun=piece) for i, piece in enumerate(begun)]
        answers = yield wave
        return [rollout for answer in answers for rollout in answer]  # type: ignore[misc]


class InFlight(Memory):
    """The rollouts that are not finished, by task: their tokens so far, and what the sampler said of them."""

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
        found: dict[Any, list[tuple[int, tuple[Any, ...]]]] = {task: [] for task in tasks}
        start = 0
        for row, length in enumerate(lengths):
            piece = tuple(tuple(c[start : start + length]) for c in columns)
            start += length
            if bool(waits[row]):
                found[tasks[group[row]]].append((index[row], piece))
        kept = {task: tuple(piece for _, piece in sorted(pieces)) for task, pieces in found.items()}
        merged = {**state["tasks"], **kept}  # a task of this batch has what it holds now; the others wait as before
        return {"tasks": {task: pieces for task, pieces in merged.items() if pieces}}

    def scalars(self, state: State) -> dict[str, float]:
        return {"in_flight": float(sum(len(pieces) for pieces in state["tasks"].values()))}


class ResumeFirst(Select):
    """Tasks with rollouts in flight before any other, which are drawn with equal chance."""

    column: str = "group.in_flight.count"

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.column,)

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        waiting = columns[self.column] > 0
        # So likely that no task without rollouts in flight is drawn as long as one with them is left.
        weight = torch.where(waiting, 1e15, 1.0)
        return weight / weight.sum()
