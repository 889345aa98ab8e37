"""How many turns an episode may take, from how many episodes have taken."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.memory import Memory, State
from podium.core.part import Columns, Metric
from podium.core.schedule import Number
from podium.rollout.plan import Plan, TaskRequest
from podium.rollout.sample import Sample
from podium.worlds.context import Context, Full, History, Message

__all__ = ["BudgetedTurns", "TurnCost", "TurnCounts", "TurnsLeft", "granted"]

PERCENTILES = (25, 50, 75)


def granted(used: float, start: int, step: int, cap: int) -> tuple[int, int]:
    """The limit for an episode that needs so many turns, and how often it was extended, from `start` up to `cap`."""
    limit, extensions = start, 0
    while used > limit and limit < cap:
        limit, extensions = min(limit + step, cap), extensions + 1
    return limit, extensions


class TurnsLeft(Context):
    """Everything, and below the last observation how many turns are left of the limit in force."""

    start: int
    step: int = 10
    cap: int = 0  # 0: the start, a fixed limit

    def __post_init__(self) -> None:
        within(self, "start", 1)
        within(self, "step", 1)

    def __call__(self, history: History) -> Sequence[Message]:
        messages, used = list(Full()(history)), len(history.exchanges)
        limit, _ = granted(used + 1, self.start, self.step, max(self.cap, self.start))
        left = max(limit - used, 0)
        return [*messages[:-1], f"{messages[-1]}\n{left} turn{'' if left == 1 else 's'} left."]


class TurnCounts(Memory):
    """How many turns the rollouts of the last `window` iterations took; its percentiles are turns.p25, .p50, .p75."""

    window: int = 8  # iterations

    provides = ()

    def __post_init__(self) -> None:
        within(self, "window", 1)

    def initial(self) -> State:
        return {"turns": []}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {}

    def after(self, state: State, turns: Sequence[int]) -> State:
        """The state after an iteration whose rollouts took so many turns."""
        return {"turns": [*state["turns"], sorted(turns)][-self.window :]}

    def observe(self, state: State, batch: Batch) -> State:
        counts = batch.partition("turn", "rollout").lengths()
        counted = batch.counted("rollout")
        return self.after(state, (counts if counted is None else counts[counted]).tolist())

    def percentile(self, state: State, q: float) -> float:
        """The q-th percentile, between two counts where it falls there; 0 before the first iteration."""
        known = torch.tensor([t for turns in state["turns"] for t in turns], dtype=torch.float64)
        return float(torch.quantile(known, q / 100)) if known.numel() else 0.0

    def scalars(self, state: State) -> dict[str, float]:
        return {f"turns.p{q}": self.percentile(state, q) for q in PERCENTILES}


class BudgetedTurns(Sample):
    """Rollouts with a limit of turns that they are told, extended by `step` while it is needed, at most to `cap`.

    Limits are rounded to whole turns, half to even; `start` = `cap` is a fixed limit, a cap of 0 is the world's own. A
    rollout that is cut is `truncated`.
    """

    reference = "More with Less: Turn-Control Strategies for Efficient Coding Agents"
    start: Number = 0  # turns
    cap: Number = 0
    step: int = 10

    provides = ("rollout.extensions",)

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "start", 0)
        within(self, "cap", 0)
        within(self, "step", 1)
        if self.context is not None or self.max_turns is not None:
            raise PodiumError("BudgetedTurns sets the context and the limit of turns itself: leave them out.")

    def limits(self) -> tuple[int, int] | None:
        """The first limit and the last one in whole turns; None: there are none yet."""
        if float(self.cap) == 0:
            return None
        cap = max(round(float(self.cap)), 1)
        return min(max(round(float(self.start)), 1), cap), cap

    def plan(self, task: TaskRequest) -> Plan:
        limits, plain = self.limits(), Sample(**{f: getattr(self, f) for f in Sample.field_names()})
        if limits is not None:
            plain = plain.replace(context=TurnsLeft(limits[0], self.step, limits[1]), max_turns=limits[1])
        rollouts = yield from plain.plan(task)
        found = []
        for r in rollouts:
            count = 0 if limits is None else granted(len(r.turns), limits[0], self.step, limits[1])[1]
            found.append(dataclasses.replace(r, columns={**r.columns, "extensions": float(count)}))
        return found


class TurnCost(Metric):
    """What a rollout costs: Σ over turns of input · (tokens of the context) + output · (tokens written).

    A context that holds everything so far is sent again each turn, so the cost grows with the square of the turns. The
    cost of a solved task is that of all rollouts over those that are right.
    """

    reference = "More with Less: Turn-Control Strategies for Efficient Coding Agents"
    input: float = 3e-6  # price of a token read
    output: float = 1.5e-5  # and of a token written

    needs = ("turn.train_context", "rollout.correct")
    provides = ("rollout.cost", "rollout.turns", "batch.cost_of_solved")

    def __post_init__(self) -> None:
        within(self, "input", 0)
        within(self, "output", 0)

    def read(self, batch: Batch) -> Tensor:
        """[turn] the tokens of its context."""
        return torch.tensor([len(c) for c in batch["turn.train_context"]], dtype=batch.dtype, device=batch.device)

    def __call__(self, batch: Batch) -> Columns:
        turns, rollouts = batch.partition("turn", "rollout"), batch.by("rollout").agg
        cost = turns.total(self.input * self.read(batch) + self.output * batch.length("turn"))
        solved = rollouts.sum(batch["rollout.correct"].to(batch.dtype))
        return {
            "rollout.cost": cost,
            "rollout.turns": turns.lengths().to(batch.dtype),
            "batch.cost_of_solved": rollouts.sum(cost) / solved.clamp(min=1),
        }
