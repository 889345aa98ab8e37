"""Rollouts of several turns, each turn rewarded by how much better a judge finds the whole after it."""

from __future__ import annotations

import dataclasses
from itertools import accumulate, pairwise
from typing import Any

from podium.core.build import Rollout
from podium.core.errors import PodiumError, within
from podium.core.part import Need, Strategy
from podium.core.streams import key
from podium.strategies.draw import Draw
from podium.strategies.judged.judges import OptionJudge
from podium.strategies.requests import JudgeScores, PairJudge, Plan, Rate, TaskRequest, Wave, rollouts_of

__all__ = ["JudgedTurns"]

JUDGED = (1 << 20) + 2  # names the random streams of the judge, which no wave of rollouts and no tournament has


class JudgedTurns(Strategy):
    """`n` rollouts of each task; the reward of a turn is how much the distance from the goal falls in it:

        r_t = φ_{t−1} − φ_t,    φ_t = 1 − the judge's score of what was said up to turn t

    The judge reads the actions and observations so far, and before the first turn nothing. What the world itself gives
    for a turn is replaced; the outcome stays. A call that fails counts as a score of 1/2. `rollout.judged.score`: the
    last score; `rollout.judged.calls`: what all of them took.
    """

    reference = "MAPO, https://github.com/2200xiaohu/MAPO"
    n: int = 8
    judge: PairJudge = OptionJudge()  # one that asks a role or a server
    draw: Draw = Draw()

    needs: tuple[Need, ...] = ("turn.action", "turn.observation")
    provides = ("turn.reward", "rollout.judged.score", "rollout.judged.calls")

    def __post_init__(self) -> None:
        within(self, "n", 1)
        if not isinstance(self.judge, PairJudge):
            raise PodiumError(f"JudgedTurns.judge = {self.judge!r} must be a judge, such as OptionJudge().")

    @property
    def writers(self) -> tuple[str, ...]:
        return self._judge.writers

    @property
    def roles_asked(self) -> tuple[str, ...]:
        return self._judge.roles

    @property
    def _judge(self) -> PairJudge:
        assert self.judge is not None
        return self.judge

    def plan(self, task: TaskRequest) -> Plan:
        rollouts = rollouts_of((yield [self.draw.play(task, self.n)]))
        texts = [_beginnings(rollout) for rollout in rollouts]
        asked = [text for own in texts for text in own]
        if not asked:
            return rollouts
        wave: Wave = [
            Rate(task, text, key(0, (*task.stream, JUDGED, number)) % 2**31, self._judge)
            for number, text in enumerate(asked)
        ]
        answers: Any = yield wave
        said = iter([scores for (scores,) in answers])
        return [_rewarded(rollout, [next(said) for _ in own]) for rollout, own in zip(rollouts, texts, strict=True)]


def _beginnings(rollout: Rollout) -> list[str]:
    """What was said before each turn, and in the end."""
    said = [f"> {turn.columns['action']}\n{turn.columns['observation']}" for turn in rollout.turns]
    return list(accumulate(said, lambda before, turn: f"{before}\n{turn}".lstrip("\n"), initial=""))


def _rewarded(rollout: Rollout, said: list[JudgeScores]) -> Rollout:
    scores = [each.scores[0] for each in said]
    turns = [
        dataclasses.replace(turn, columns={**turn.columns, "reward": after - before})
        for turn, (before, after) in zip(rollout.turns, pairwise(scores), strict=True)
    ]
    columns: dict[str, Any] = {"judged.score": scores[-1], "judged.calls": float(sum(each.calls for each in said))}
    return dataclasses.replace(rollout, turns=turns, columns={**rollout.columns, **columns})
