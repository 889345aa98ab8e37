"""Replay and reflection: groups without contrast get stored rollouts of the opposite outcome, and failed tasks are
asked again with an earlier wrong answer in the prompt."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from podium.core.build import Rollout
from podium.core.errors import within
from podium.core.part import Strategy
from podium.core.schedule import Number
from podium.protocols.scaffold import Scaffold
from podium.strategies.draw import Draw
from podium.strategies.hints.repair import MARKS, Repair, marked, play_under
from podium.strategies.requests import Plan, TaskRequest, rollouts_of
from podium.strategies.sample.sample import Sample
from podium.strategies.teachers.teachers import Stored, draw_at_most

__all__ = ["ReplayAndReflect"]


class ReplayAndReflect(Strategy):
    """`n` rollouts; a group that all failed or all succeeded gets up to `most` stored ones of the opposite outcome.

    A task whose mean reward so far is below `tau` is also asked with one of its earlier wrong answers in the prompt, as
    a group of its own. `rollout.replayed` marks stored rollouts, `rollout.fresh` the others, `rollout.reflecting` those
    of the second group.
    """

    reference = "R³: Replay, Reflection and Ranking Rewards"
    n: int = 8
    most: int = 2  # stored rollouts that join a group
    tau: Number = 0.2  # 0: no reflection
    ask: str = ""  # stands below the earlier answer
    draw: Draw = Draw()

    needs = ("group.stored", "group.stored.mean")
    provides = (*MARKS, "rollout.replayed", "rollout.fresh", "rollout.reflecting")

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "most", 1)
        within(self, "tau", 0)

    @property
    def neutral(self) -> Sample:
        return Sample(n=self.n, draw=self.draw)

    def acted(self, rollouts: Sequence[Any]) -> int:
        return sum(rollout.columns["replayed"] or rollout.columns["reflecting"] for rollout in rollouts)

    def plan(self, task: TaskRequest) -> Plan:
        replay = Repair(n=self.n, help=Stored(self.most), when="all alike", take="add", most=self.most, draw=self.draw)
        group = yield from replay.plan(task)
        rollouts = [_noted(r) for r in group]
        mean = float(task.recalled.get("group.stored.mean", 1.0))
        wrong = [stored for stored in task.recalled.get("group.stored", ()) if not stored["correct"]]
        if mean >= self.tau or not wrong:
            return rollouts
        (stored,) = draw_at_most(wrong, task, 1)
        scaffold = Scaffold(attempt=stored["text"], below=self.ask)
        first = 1 + max(r.columns["index"] for r in group)
        play = play_under(self.draw, task, scaffold, self.n, first=first, wave=1, kept=True)
        reflections = [_noted(marked(r, guided=True), reflecting=True) for r in rollouts_of((yield [play]))]
        return [*rollouts, *(dataclasses.replace(r, group=f"{r.group}, reflection") for r in reflections)]


def _noted(rollout: Rollout, reflecting: bool = False) -> Rollout:
    replayed = rollout.columns.get("source") == "copied"
    marks = {"replayed": replayed, "fresh": not replayed, "reflecting": reflecting}
    return dataclasses.replace(rollout, columns={**rollout.columns, **marks})
