"""Rollouts of any strategy, each judged by itself."""

from __future__ import annotations

from collections.abc import Sequence

from podium.core.build import Rollout
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Need
from podium.core.streams import key, uniforms
from podium.strategies.judged.of_rollouts import OfRollouts, with_columns
from podium.strategies.requests import JudgeScores, Meets, PairJudge, Rate, SubPlan, TaskRequest, Wave

__all__ = ["JudgedRollouts", "criteria_judged", "rated"]

JUDGED = (1 << 20) + 1  # names the random streams of the judge, which no wave of rollouts and no tournament has
SENT = (1 << 20) + 3  # and those that draw which rollouts the judge sees


class JudgedRollouts(OfRollouts):
    """The rollouts of another strategy, each judged by itself.

    asks = "score": `rollout.judged.score`, in [0, 1], how good the judge finds it. asks = "criteria": the criteria of
    the task that it meets, with their points, in place of the world's own verdict on them. `rollout.judged.calls`:
    what that took.

    Where verdicts are costly only a `share` of the rollouts is sent to the judge, each drawn by itself. The score of
    one that is sent is then (score − (1 − share) · assumed) / share, and `assumed` that of the others: an unbiased
    estimate of the judge's score, whose variance is least where `assumed` is close to it.
    """

    judge: str | PairJudge = "world"  # world, or a judge that asks a role or a server
    asks: str = "score"  # or criteria
    calls: int = 1  # of the judge for each score or criterion
    share: float = 1.0  # of the rollouts that is sent to the judge, in (0, 1]; below 1 with asks = "score" alone
    assumed: float = 0.5  # the score of those that are not

    def __post_init__(self) -> None:
        one_of(self, "asks", ("score", "criteria"))
        within(self, "calls", 1)
        within(self, "share", 0, 1, open_low=True)
        if self.share < 1 and self.asks == "criteria":
            raise PodiumError("JudgedRollouts.share must be 1 where criteria are asked: use asks='score'.")
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
        return rated(task, rollouts, self.judge, self.calls, self.share, self.assumed)


def rated(
    task: TaskRequest,
    rollouts: Sequence[Rollout],
    judge: str | PairJudge,
    calls: int = 1,
    share: float = 1.0,
    assumed: float = 0.5,
) -> SubPlan:
    """A sub-plan that returns the rollouts with `judged.score`, the judge's score of each, and `judged.calls`; of those
    that are not sent, with estimates that are right on average."""
    drawn = uniforms([key(0, (*task.stream, SENT, n)) for n in range(len(rollouts))], [0] * len(rollouts), 1)[:, 0]
    sent = [number for number in range(len(rollouts)) if drawn[number] < share]
    said: dict[int, JudgeScores] = {}
    if sent:
        wave: Wave = [Rate(task, str(rollouts[n].columns["text"]), _seed(task, n), judge, calls) for n in sent]
        said = {n: scores for n, (scores,) in zip(sent, (yield wave), strict=True)}
    judged = []
    for number, rollout in enumerate(rollouts):
        score, spent = assumed, 0.0
        if number in said:
            score = (said[number].scores[0] - (1 - share) * assumed) / share
            spent = float(said[number].calls)
        judged.append(with_columns(rollout, {"judged.score": score, "judged.calls": spent}))
    return judged


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
