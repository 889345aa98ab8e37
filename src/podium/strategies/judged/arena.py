"""A tournament within each group: a judge compares rollouts in pairs, and the ranks are rewards."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from podium.core.build import Rollout
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Need, Strategy
from podium.core.streams import key
from podium.strategies.draw import Draw
from podium.strategies.judged.tournament import TOPOLOGIES, Standing, by_score
from podium.strategies.requests import (
    Compare,
    JudgeScores,
    PairJudge,
    Plan,
    Rate,
    SubPlan,
    TaskRequest,
    Wave,
    rollouts_of,
)

__all__ = ["Arena"]

POINTWISE = "pointwise"  # no comparison: each rollout is rated by itself
JUDGED = 1 << 20  # names the random streams of the judge, which no wave of rollouts has


class Arena(Strategy):
    """`n` rollouts of each task, which then meet in a tournament whose judge compares their texts in pairs.

    `rollout.arena.reward` is 1 for the best and 0 for the last, `rollout.arena.rank` 1 for the best. Each comparison is
    a pair of the relation `pair`, with `difference`, the left one's score minus the right one's, times `unit`;
    `rollout.arena.won` is the share of its comparisons that a rollout has won, ties half. The calls of a comparison are
    booked to `rollout.arena.calls`, half to each of the two. topology = "pointwise" is the usual judge: it rates each
    rollout by itself, and the reward is the mean rating.
    """

    reference = "ArenaRL, https://github.com/Alibaba-NLP/qqr"
    n: int = 16  # at least 2
    topology: str = "seeded"  # anchor, round_robin, seeded, swiss, double_elimination, or pointwise
    judge: str | PairJudge = "world"  # world, or a judge that asks a role
    calls: int = 2  # of the judge for each comparison, in alternating order, or for each rating
    unit: float = 1.0  # what a difference of 1 between two scores is called: 3 where a judge says −3 … 3
    draw: Draw = Draw()

    def __post_init__(self) -> None:
        within(self, "n", 2)
        within(self, "calls", 1)
        within(self, "unit", 0, open_low=True)
        one_of(self, "topology", (*TOPOLOGIES, POINTWISE))
        if isinstance(self.judge, str) and self.judge != "world":
            raise PodiumError(f"Arena.judge = {self.judge!r} must be 'world' or a judge, such as one that asks a role.")

    @property
    def needs(self) -> tuple[Need, ...]:
        if isinstance(self.judge, PairJudge):
            return ()
        return ("task.rate",) if self.topology == POINTWISE else ("task.compare",)

    @property
    def provides(self) -> tuple[str, ...]:
        columns = ("rollout.arena.reward", "rollout.arena.rank", "rollout.arena.calls")
        return columns if self.topology == POINTWISE else (*columns, "rollout.arena.won", "pair.difference")

    @property
    def writers(self) -> tuple[str, ...]:
        return (*self.seated, *(self.judge.writers if isinstance(self.judge, PairJudge) else ()))

    @property
    def roles_asked(self) -> tuple[str, ...]:
        return self.judge.roles if isinstance(self.judge, PairJudge) else ()

    def plan(self, task: TaskRequest) -> Plan:
        rollouts = rollouts_of((yield [self.draw.play(task, self.n)]))
        texts = [str(rollout.columns["text"]) for rollout in rollouts]
        if not texts:
            return []
        held = self._rated(task, texts) if self.topology == POINTWISE else self._compared(task, texts)
        return _with_results(rollouts, self.unit, *(yield from held))

    def _compared(self, task: TaskRequest, texts: Sequence[str]) -> SubPlan:
        """The tournament: how the texts stand, the calls booked to each, and the verdicts on pairs."""
        tournament = TOPOLOGIES[self.topology](len(texts), _seed(task, 0))
        verdicts: list[tuple[int, int, JudgeScores]] = []
        pairs = next(tournament)
        while True:
            requests: Wave = [
                Compare(task, texts[i], texts[j], _seed(task, number), self.judge, self.calls)
                for number, (i, j) in enumerate(pairs, start=len(verdicts) + 1)
            ]
            said = [scores for (scores,) in (yield requests)]
            verdicts += ((i, j, scores) for (i, j), scores in zip(pairs, said, strict=True))
            try:
                pairs = tournament.send([scores.scores for scores in said])
            except StopIteration as end:
                return end.value, _booked(len(texts), verdicts), verdicts

    def _rated(self, task: TaskRequest, texts: Sequence[str]) -> SubPlan:
        """How the texts stand by their ratings, and the calls of each."""
        requests: Wave = [
            Rate(task, text, _seed(task, number), self.judge, self.calls) for number, text in enumerate(texts, start=1)
        ]
        said = [scores for (scores,) in (yield requests)]
        ratings = tuple(scores.scores[0] for scores in said)
        return Standing(by_score(ratings).rank, ratings), [float(scores.calls) for scores in said], None


def _seed(task: TaskRequest, number: int) -> int:
    return key(0, (*task.stream, JUDGED, number)) % 2**31


def _booked(n: int, verdicts: Sequence[tuple[int, int, JudgeScores]]) -> list[float]:
    """The calls of each text: half of those of its comparisons."""
    calls = [0.0] * n
    for i, j, scores in verdicts:
        for player in (i, j):
            calls[player] += scores.calls / 2
    return calls


def _with_results(
    rollouts: Sequence[Rollout],
    unit: float,
    standing: Standing,
    calls: Sequence[float],
    verdicts: Sequence[tuple[int, int, JudgeScores]] | None,
) -> list[Rollout]:
    """The rollouts with what the tournament has come to."""
    indices = [rollout.columns["index"] for rollout in rollouts]
    result = []
    for place, rollout in enumerate(rollouts):
        columns: dict[str, Any] = {
            "arena.reward": standing.reward[place],
            "arena.rank": float(standing.rank[place]),
            "arena.calls": calls[place],
        }
        pairs: dict[str, list[Any]] = {}
        if verdicts is not None:
            own = [(indices[j], unit * _lead(scores)) for i, j, scores in verdicts if i == place]
            columns["arena.won"] = _won(place, verdicts)
            pairs = {"right": [other for other, _ in own], "difference": [difference for _, difference in own]}
        result.append(dataclasses.replace(rollout, columns={**rollout.columns, **columns}, pairs=pairs))
    return result


def _lead(scores: JudgeScores) -> float:
    return scores.scores[0] - scores.scores[1]


def _won(place: int, verdicts: Sequence[tuple[int, int, JudgeScores]]) -> float:
    """The share of its comparisons that a rollout has won, ties half; 1/2 if there are none."""
    leads = [_lead(scores) if i == place else -_lead(scores) for i, j, scores in verdicts if place in (i, j)]
    points = [1.0 if lead > 0 else 0.5 if lead == 0 else 0.0 for lead in leads]
    return sum(points) / len(points) if points else 0.5
