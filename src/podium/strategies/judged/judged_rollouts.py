"""Rollouts of any strategy, each judged by itself."""

from __future__ import annotations

from collections.abc import Sequence

from podium.core.build import Rollout
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Need
from podium.core.streams import key
from podium.strategies.judged.of_rollouts import OfRollouts, with_columns
from podium.strategies.requests import JudgeScores, Meets, PairJudge, Rate, SubPlan, TaskRequest, Wave

__all__ = ["JudgedRollouts", "criteria_judged", "rated"]

JUDGED = (1 << 20) + 1  # names the random streams of the judge, which no wave of rollouts and no tournament has


class JudgedRollouts(OfRollouts):
    """The rollouts of another strategy, each judged by itself.

    asks = "score": `rollout.judged.score`, in [0, 1], how good the judge finds it. asks = "criteria": the criteria of
    the task that it meets, with their points, in place of the world's own verdict on them. `rollout.judged.calls`:
    what that took.
    """

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
    def writers(self) -> tuple[str, ...]:
        return (*self.strategy.writers, *(self.judge.writers if isinstance(self.judge, PairJudge) else ()))

    @property
    def roles_asked(self) -> tuple[str, ...]:
        return (*self.strategy.roles_asked, *(self.judge.roles if isinstance(self.judge, PairJudge) else ()))

    def asked(self, task: TaskRequest, rollouts: Sequence[Rollout]) -> SubPlan:
        if isinstance(self.judge, PairJudge) and self.asks == "criteria":
            return criteria_judged(task, rollouts, self.judge, self.calls)
        return rated(task, rollouts, self.judge, self.calls)


def rated(task: TaskRequest, rollouts: Sequence[Rollout], judge: str | PairJudge, calls: int = 1) -> SubPlan:
    """A sub-plan that returns the rollouts with `judged.score`, the judge's score of each, and `judged.calls`."""
    if not rollouts:
        return []
    wave: Wave = [
        Rate(task, str(r.columns["text"]), _seed(task, number), judge, calls) for number, r in enumerate(rollouts)
    ]
    said: list[JudgeScores] = [scores for (scores,) in (yield wave)]
    return [
        with_columns(rollout, {"judged.score": scores.scores[0], "judged.calls": float(scores.calls)})
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
        result.append(with_columns(rollout, {"points": points, "met": met, "judged.calls": spent}))
    return result


def _seed(task: TaskRequest, number: int) -> int:
    return key(0, (*task.stream, JUDGED, number)) % 2**31
