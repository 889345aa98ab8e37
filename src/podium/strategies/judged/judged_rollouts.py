"""Rollouts of any strategy, each judged by itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from podium.core.build import Rollout
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Need, Strategy
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.core.streams import key
from podium.strategies.draw import Draw
from podium.strategies.requests import JudgeScores, Meets, PairJudge, Plan, Rate, SubPlan, TaskRequest, Wave
from podium.strategies.sample.sample import Sample

__all__ = ["JudgedRollouts", "criteria_judged", "rated"]

JUDGED = (1 << 20) + 1  # names the random streams of the judge, which no wave of rollouts and no tournament has


class JudgedRollouts(Strategy):
    """The rollouts of another strategy, each judged by itself.

    asks = "score": `rollout.judged.score`, in [0, 1], how good the judge finds it. asks = "criteria": the criteria of
    the task that it meets, with their points, in place of the world's own verdict on them. `rollout.judged.calls`:
    what that took.
    """

    strategy: Strategy = Sample(n=8)
    judge: str | PairJudge = "world"  # world, or a judge that asks a role or a server
    asks: str = "score"  # or criteria
    calls: int = 1  # of the judge for each score or criterion

    def __post_init__(self) -> None:
        one_of(self, "asks", ("score", "criteria"))
        within(self, "calls", 1)
        if isinstance(self.judge, str) and (self.judge != "world" or self.asks == "criteria"):
            wanted = "a judge, such as one that asks a role"
            raise PodiumError(f"JudgedRollouts.judge = {self.judge!r} must be {wanted}, or 'world' if asks='score'.")

    @property
    def needs(self) -> tuple[Need, ...]:
        own = "task.rate" if self.judge == "world" else "task.criteria" if self.asks == "criteria" else None
        return (*self.strategy.needs, *((own,) if own else ()))

    @property
    def provides(self) -> tuple[str, ...]:
        own = ("rollout.judged.score",) if self.asks == "score" else ("rollout.points", "rollout.met")
        return (*self.strategy.provides, *own, "rollout.judged.calls")

    @property
    def n(self) -> int | None:
        return self.strategy.n

    @property
    def draw(self) -> Draw | None:
        return self.strategy.draw  # type: ignore[return-value]

    @property
    def temperature(self) -> Number:
        return self.strategy.temperature

    @property
    def format(self) -> Any:
        return self.strategy.format

    @property
    def draw_shift(self) -> Signal | None:
        return self.strategy.draw_shift

    @property
    def writers(self) -> tuple[str, ...]:
        return (*self.strategy.writers, *(self.judge.writers if isinstance(self.judge, PairJudge) else ()))

    @property
    def roles_asked(self) -> tuple[str, ...]:
        return (*self.strategy.roles_asked, *(self.judge.roles if isinstance(self.judge, PairJudge) else ()))

    def prepare(self, world: Any = None) -> tuple[str, ...]:
        return self.strategy.prepare(world)

    def plan(self, task: TaskRequest) -> Plan:
        return self._judging(self.strategy.plan(task), [task])

    def plans(self, tasks: Sequence[TaskRequest]) -> list[Plan]:
        plans = self.strategy.plans(tasks)
        together = len(plans) != len(tasks)  # one plan for all tasks
        return [self._judging(plan, tasks if together else [tasks[number]]) for number, plan in enumerate(plans)]

    def _judging(self, plan: Plan, tasks: Sequence[TaskRequest]) -> Plan:
        rollouts = yield from plan
        result: list[Rollout] = []
        for task in tasks:
            own = [r for r in rollouts if len(tasks) == 1 or r.group == task.group]
            if not own:
                continue
            if isinstance(self.judge, PairJudge) and self.asks == "criteria":
                result += yield from criteria_judged(task, own, self.judge, self.calls)
            else:
                result += yield from rated(task, own, self.judge, self.calls)
        return result


def rated(task: TaskRequest, rollouts: Sequence[Rollout], judge: str | PairJudge, calls: int = 1) -> SubPlan:
    """A sub-plan that returns the rollouts with `judged.score`, the judge's score of each, and `judged.calls`."""
    if not rollouts:
        return []
    wave: Wave = [
        Rate(task, str(r.columns["text"]), _seed(task, number), judge, calls) for number, r in enumerate(rollouts)
    ]
    said: list[JudgeScores] = [scores for (scores,) in (yield wave)]
    return [
        _with(rollout, {"judged.score": scores.scores[0], "judged.calls": float(scores.calls)})
        for rollout, scores in zip(rollouts, said, strict=True)
    ]


def criteria_judged(task: TaskRequest, rollouts: Sequence[Rollout], judge: PairJudge, calls: int = 1) -> SubPlan:
    """A sub-plan that returns the rollouts with the points of the task's criteria, which of them the judge finds met,
    and `judged.calls`. A criterion is met where its probability exceeds 1/2: not where the judge has failed."""
    assert task.world is not None
    criteria = task.world.criteria(task.task)
    points = tuple(criterion.points for criterion in criteria)
    asked = [(str(r.columns["text"]), criterion.text) for r in rollouts for criterion in criteria]
    if not asked:
        return list(rollouts)
    wave: Wave = [
        Meets(task, text, criterion, judge, _seed(task, number), calls)
        for number, (text, criterion) in enumerate(asked)
    ]
    said = iter([scores for (scores,) in (yield wave)])
    result = []
    for rollout in rollouts:
        own: list[JudgeScores] = [next(said) for _ in points]
        met = tuple(scores.scores[0] > 0.5 for scores in own)
        spent = float(sum(scores.calls for scores in own))
        result.append(_with(rollout, {"points": points, "met": met, "judged.calls": spent}))
    return result


def _seed(task: TaskRequest, number: int) -> int:
    return key(0, (*task.stream, JUDGED, number)) % 2**31


def _with(rollout: Rollout, columns: dict[str, Any]) -> Rollout:
    return dataclasses.replace(rollout, columns={**rollout.columns, **columns})
