"""Hints as long as needed: each round, or each task, is shown the share of a solution that its success suggests."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from podium.core.build import Rollout
from podium.core.columns import Origin, Purpose
from podium.core.errors import within
from podium.core.part import Strategy
from podium.core.schedule import Number
from podium.core.streams import key
from podium.protocols.scaffold import Scaffold
from podium.protocols.world import World
from podium.strategies.draw import Draw
from podium.strategies.hints.help import LAST, solution, without_reasoning
from podium.strategies.hints.item_response import ItemResponse
from podium.strategies.hints.repair import MARKS, helped, marked
from podium.strategies.requests import Plan, Play, Recite, TaskRequest, Written, rollouts_of

__all__ = ["HintPrefix", "HintRounds"]


class HintRounds(Strategy):
    """`rounds` times `n` rollouts of each task; each round shows the share of a solution at which half should succeed.

    The share follows from a curve fitted to the rounds so far, and is rounded to whole lines of the solution. The first
    round of a task shows all lines but the last; later visits begin with the share that the last visit ended with. The
    longest hint is also a demonstration: an unfinished answer to the bare question.
    """

    reference = "SEELE, https://arxiv.org/abs/2509.06923"
    n: int = 8  # rollouts of a round
    rounds: int = 4
    response: ItemResponse = ItemResponse()  # the curve, and the success rate it aims at
    style: str = "short"  # of the world's solution
    active: Number = 1.0  # 0: no hints
    draw: Draw = Draw()

    needs = ("task.solution", "group.hint.rate")
    provides = (*MARKS, "rollout.help.next", "rollout.demonstration", "rollout.sampled")

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "rounds", 1)

    def prepare(self, world: World | None = None) -> tuple[str, ...]:
        return without_reasoning(world, self.style)

    @property
    def neutral(self) -> HintRounds:
        return self.replace(active=0.0)

    def acted(self, rollouts: Sequence[Any]) -> int:
        return helped(rollouts)

    def plan(self, task: TaskRequest) -> Plan:
        text = (yield from solution(task, self.style)) if self.active else ""
        lines = text.splitlines()
        stored = float(task.recalled.get("group.hint.rate", -1.0))
        rate = stored if stored >= 0 else (len(lines) - 1) / max(len(lines), 1)
        rounds: list[tuple[float, float]] = []  # share shown, share of successes
        group: list[Rollout] = []
        for number in range(self.rounds):
            hint = "\n".join(lines[: round(rate * len(lines))])
            sampled = rollouts_of((yield [self._round(task, hint, number)]))
            if not sampled:  # the hint leaves no tokens for an answer
                hint, lines = "", []
                sampled = rollouts_of((yield [self._round(task, hint, number)]))
            share = len(hint.splitlines()) / max(len(lines), 1)
            group += [_noted(r, share, missing=bool(self.active) and not lines) for r in sampled]
            right = [r.columns["reward"] > 0 for r in group[-self.n :]]
            rounds.append((share, sum(right) / self.n))
            rate = self.response.next(rounds) if lines else 0.0
        longest = round(max(share for share, _ in rounds) * len(lines))
        if longest:
            hint = "\n".join(lines[:longest])
            recite = Recite(task, (hint,), index=LAST, purpose=Purpose.demo, origin=Origin.hint, ended=False)
            (demonstration,) = rollouts_of((yield [recite]))
            group.append(_noted(demonstration, 0.0, missing=False, demonstration=True, sampled=False))
        return [dataclasses.replace(r, columns={**r.columns, "help.next": rate}) for r in group]

    def _round(self, task: TaskRequest, hint: str, number: int) -> Play:
        context = Scaffold(hint, base=self.draw.context_of(task)) if hint else self.draw.context
        return self.draw.play(task, self.n, first=number * self.n, wave=number, context=context)


def _noted(rollout: Rollout, share: float, *, missing: bool, **columns: Any) -> Rollout:
    rollout = marked(rollout, guided=share > 0, missing=missing)
    marks = {"help.level": share, "demonstration": False, "sampled": True, **columns}
    return dataclasses.replace(rollout, columns={**rollout.columns, **marks})


class HintPrefix(Strategy):
    """`n` rollouts of each task, then `hinted` more that begin with a solution's prefix: longer where more have failed.

    The share of the solution's tokens is (most − least) · (1 − mean reward) + least + noise, within [0, 1]; where all
    succeed no rollout is hinted. The prefix is part of the answer, of origin `hint`. `rollout.hinted` marks the
    rollouts that begin with one.
    """

    reference = "ADHint: Adaptive Hints with Difficulty Priors for Reinforcement Learning"
    n: int = 4
    hinted: int = 4  # rollouts
    least: float = 0.1  # share of the solution
    most: float = 0.9  # share of the solution
    noise: Number = 0.05  # standard deviation
    style: str = "short"  # of the world's solution
    draw: Draw = Draw()

    needs = ("task.solution",)
    provides = (*MARKS, "rollout.hinted")

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "hinted", 1)
        within(self, "least", 0, 1)
        within(self, "most", self.least, 1)
        within(self, "noise", 0)

    @property
    def neutral(self) -> HintPrefix:
        return self.replace(least=0.0, most=0.0, noise=0.0)

    def acted(self, rollouts: Sequence[Any]) -> int:
        return helped(rollouts)

    def share(self, difficulty: float, noise: float) -> float:
        """The share of the solution's tokens that is given."""
        if difficulty == 0:
            return 0.0
        return min(max((self.most - self.least) * difficulty + self.least + noise, 0.0), 1.0)

    def tokens(self, share: float, length: int) -> int:
        """How many of `length` tokens a share is."""
        return math.floor(share * length)

    def difficulty(self, rewards: Sequence[float]) -> float:
        """1 − mean reward."""
        return 1 - sum(rewards) / len(rewards)

    def plan(self, task: TaskRequest) -> Plan:
        group = rollouts_of((yield [self.draw.play(task, self.n)]))
        difficulty = self.difficulty([r.columns["reward"] for r in group])
        noise = float(np.random.default_rng(key(0, task.stream)).normal()) * float(self.noise)
        share = self.share(difficulty, noise)
        if not share:
            return [_with_hint(r) for r in group]
        recite = Recite(task, style=self.style, purpose=Purpose.probe, index=LAST, optional=True)
        solutions = [r for r in rollouts_of((yield [recite])) if r.columns["correct"]]
        ids = tuple(solutions[0].turns[0].ids)[:-1] if solutions else ()  # without the end-of-turn token
        prefix = ids[: self.tokens(share, len(ids))]
        if not prefix:
            return [_with_hint(r, missing=not solutions) for r in group]
        begun = Written(prefix, origin=Origin.hint, scored=True)
        play = self.draw.play(task, self.hinted, first=len(group), wave=1, begun=begun)
        hinted = rollouts_of((yield [play]))
        return [*(_with_hint(r) for r in group), *(_with_hint(r, share) for r in hinted)]


def _with_hint(rollout: Rollout, share: float = 0.0, *, missing: bool = False) -> Rollout:
    rollout = marked(rollout, guided=share > 0, missing=missing)
    return dataclasses.replace(rollout, columns={**rollout.columns, "hinted": share > 0, "help.level": share})
