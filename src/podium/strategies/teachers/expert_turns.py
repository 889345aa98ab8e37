"""Single turns from inside a demonstration: the model takes the next action where the expert's action is known."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from podium.core.build import Rollout, Turn
from podium.core.columns import Purpose
from podium.core.errors import within
from podium.core.part import Need, Strategy
from podium.core.schedule import Number
from podium.core.streams import key
from podium.strategies.draw import Draw, refuse_settings
from podium.strategies.requests import Plan, Recite, Resume, TaskRequest, rollouts_of
from podium.strategies.teachers.traces import Traces, check_traces, existing, read_traces

__all__ = ["PROFILER", "NextTurn", "is_pivot"]

PROFILER = "profiler"  # the role of the frozen policy that turns are profiled by


def is_pivot(rewards: Sequence[float], below: float) -> bool:
    """Whether a turn with these rewards of its profile is a pivot: they vary, and their mean is below `below`."""
    return min(rewards) < max(rewards) and sum(rewards) / len(rewards) < below


class NextTurn(Strategy):
    """`n` samples of one turn, after the turns before it in an expert's trajectory.

    The reward is 1 if the action leads where the expert's does, to the same next state with the same reward, however it
    is worded. The episode is not played to its end. The turn is chosen at random; with `profile`, among the pivots:
    turns of which the frozen policy `profiler` takes some, but fewer than `below`, as the expert does. A task is always
    profiled with the same random numbers, so that its pivots stay the same; `rollout.pivot` is False for one that has
    none.
    """

    reference = "PivotRL: High Accuracy Agentic Post-Training at Low Compute Cost"
    n: int = 8
    style: str = "short"  # of the world's solution
    draw: Draw = Draw()  # without max_turns
    traces: str = ""  # a file of JSON lines with the key of a `task` and its `turns`, a list of texts; empty: solutions
    profile: int = 0  # samples of each turn by the role `profiler`; 0: every turn counts as a pivot
    below: Number = 0.75  # the profiled success rate of a pivot, ≥ 0

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "profile", 0)
        within(self, "below", 0)
        refuse_settings(self, self.draw, "max_turns")

    @property
    def needs(self) -> tuple[Need, ...]:
        return (*(() if self.traces else ("task.solution",)), "turn.next_state", "turn.reward")

    @property
    def provides(self) -> tuple[str, ...]:
        return ("rollout.cut", *(("rollout.pivot", "rollout.profiled", "rollout.purpose") if self.profile else ()))

    @property
    def roles_asked(self) -> tuple[str, ...]:
        return (PROFILER,) if self.profile else ()

    @property
    def writers(self) -> tuple[str, ...]:
        return (*self.seated, *((PROFILER,) if self.profile else ()))

    def prepare(self, world: Any = None) -> tuple[str, ...]:
        if self.traces and world is not None:
            existing(self.traces, "then the world's own solutions are the experts'")
            check_traces(self.traces, self.trajectories, world)
        return ()

    @cached_property
    def trajectories(self) -> Traces:
        """The turns of the experts' trajectories in the file, by task."""
        return read_traces(self.traces)

    def plan(self, task: TaskRequest) -> Plan:
        context, train_context = self.draw.context, self.draw.train_context
        traces = self.trajectories.get(task.task.key) if self.traces else None
        texts = traces[-1] if traces else None  # of several, the last
        settings: dict[str, Any] = {"purpose": Purpose.probe, "context": context, "train_context": train_context}
        (expert,) = rollouts_of((yield [Recite(task, texts, self.style, **settings)]))
        cuts = list(range(len(expert.turns)))
        rates: dict[int, float] = {}
        if self.profile:
            name = zlib.crc32(task.task.key.encode())
            same = dataclasses.replace(task, stream=(task.stream[0], name))
            answers = yield [
                self._after(same, expert, cut, self.profile, purpose=Purpose.probe, role=PROFILER) for cut in cuts
            ]
            groups = [
                [_graded(r, expert.turns[cut], cut) for r in rollouts_of([a])]
                for cut, a in zip(cuts, answers, strict=True)
            ]
            rewards = [[r.columns["reward"] for r in group] for group in groups]
            rates = {cut: sum(own) / len(own) for cut, own in zip(cuts, rewards, strict=True)}
            cuts = [cut for cut, own in zip(cuts, rewards, strict=True) if is_pivot(own, float(self.below))]
            if not cuts:
                return [_marked(groups[0][0], False, rates[0])]
        cut = cuts[key(0, (*task.stream, len(cuts))) % len(cuts)]
        sampled = rollouts_of((yield [self._after(task, expert, cut, self.n)]))
        graded = [_graded(r, expert.turns[cut], cut) for r in sampled]
        return [_marked(r, True, rates[cut]) for r in graded] if self.profile else graded

    def _after(self, task: TaskRequest, expert: Rollout, cut: int, n: int, **settings: Any) -> Resume:
        """Samples of a turn after the expert's turns before it."""
        play = self.draw.play(task, n, wave=1, max_turns=cut + 1, **settings)
        return Resume(play, tuple(expert.turns[:cut]), (0, 0))


def _graded(rollout: Rollout, expert: Turn, cut: int) -> Rollout:
    """The last turn alone, graded against the expert's."""
    turn = rollout.turns[-1]
    same = all(turn.columns[name] == expert.columns[name] for name in ("next_state", "reward"))
    right = same and not rollout.columns["failure"]
    turn = dataclasses.replace(turn, columns={**turn.columns, "reward": float(right)})
    columns = {"reward": float(right), "correct": bool(right), "cut": float(cut), "text": turn.columns["action"]}
    truncated = rollout.columns["stop"] in ("length", "context")  # the turn limit is no truncation here
    return dataclasses.replace(
        rollout,
        task=f"{rollout.task}/turn {cut}",
        turns=[turn],
        columns={**rollout.columns, **columns, "truncated": truncated},
    )


def _marked(rollout: Rollout, pivot: bool, rate: float) -> Rollout:
    return dataclasses.replace(rollout, columns={**rollout.columns, "pivot": pivot, "profiled": rate})
