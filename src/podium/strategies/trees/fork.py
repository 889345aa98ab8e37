"""Forking rollouts: more rollouts branch off from points inside those sampled so far."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from podium.core.build import Rollout
from podium.core.columns import Purpose
from podium.core.errors import one_of, within
from podium.core.part import Need, Strategy
from podium.core.schedule import Count, Number
from podium.core.signal import Signal
from podium.core.streams import key
from podium.strategies.draw import Draw
from podium.strategies.requests import Plan, Read, TaskRequest, Wave, rollouts_of
from podium.strategies.sample.sample import Sample
from podium.strategies.trees.fork_points import ForkPoints, TopEntropy
from podium.strategies.trees.lineage import PLANTED, fork, head, length, paths, planted

__all__ = ["Fork", "Grow"]


class Fork(Strategy):
    """`n` base rollouts, and `branches` more from each fork point in them; the token at the point is sampled anew.

    The branches are trained like the base rollouts, or have the purpose `baseline`: not trained, but read by parts that
    ask for baselines.
    """

    reference = "ETTRL; CURE, https://github.com/bytedance/CURE; SPO, https://github.com/AIFrameResearch/SPO"
    n: int = 8  # base rollouts
    fork_points: ForkPoints = TopEntropy()
    branches: int = 2  # at each point
    purpose: str = "train"  # of the branches: train or baseline
    prompt: Count = None  # tokens before a branch at most, the question included; later points move forward to fit
    draw: Draw = Draw()

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "branches", 0)
        within(self, "prompt", 1, optional=True)
        one_of(self, "purpose", ("train", "baseline"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return self.fork_points.needs

    @property
    def provides(self) -> tuple[str, ...]:
        return PLANTED if self.purpose == "train" else (*PLANTED, "rollout.purpose")

    @property
    def rollouts(self) -> int:
        """How many rollouts there are where every base rollout has as many fork points as are asked for."""
        return self.n * (1 + self.fork_points.most * self.branches)

    @property
    def neutral(self) -> Sample:
        return Sample(n=self.rollouts, draw=self.draw)

    def acted(self, rollouts: Sequence[Any]) -> int:
        return sum(rollout.columns["fork"] > 0 for rollout in rollouts)

    @property
    def cost(self) -> float:
        """Tokens sampled, relative to as many independent rollouts, if the points are spread evenly over the text."""
        more = self.fork_points.most * self.branches
        return (1 + more / 2) / (1 + more)

    def plan(self, task: TaskRequest) -> Plan:
        bases = rollouts_of((yield [self.draw.play(task, self.n, keep=True)]))
        token_texts = yield [Read(tuple(token for turn in base.turns for token in turn.ids)) for base in bases]
        branch = self.draw.play(task, self.branches, keep=True, wave=1, purpose=Purpose[self.purpose])
        parents, forks = [-1] * len(bases), [0] * len(bases)
        wave: Wave = []
        for row, base in enumerate(bases):
            values = _values(base, self.fork_points.column)
            u = (key(0, (*task.stream, 1, row)) >> 11) * 2.0**-53
            for point in self.fork_points(values, token_texts[row], u) if self.branches else ():  # type: ignore[arg-type]
                point = point if self.prompt is None else head(base, point, self.prompt)
                wave.append(fork(dataclasses.replace(branch, first=len(parents)), base, point, chance=(0, row)))
                parents += [row] * self.branches
                forks += [point] * self.branches
        rollouts = [*bases, *rollouts_of((yield wave) if wave else [])]
        return planted(rollouts, paths(parents, forks, [length(r) for r in rollouts]), parents)


class Grow(Strategy):
    """`n` rollouts, one after another: each starts anew with probability `restart`, or else forks at the token with the
    highest score among all rollouts so far; ties go to the earlier rollout and position."""

    reference = "ROSE, https://github.com/ZiqiZhao1/ROSE-rl"
    n: int = 8
    restart: Number = 0.5  # probability
    metric: str = "cosine-entropy"  # the score of the signal `divergence`: cosine-entropy, entropy or cosine
    candidates: int = 20  # likeliest tokens whose embeddings are compared
    draw: Draw = Draw()

    provides = PLANTED

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "restart", 0, 1)
        within(self, "candidates", 2)
        one_of(self, "metric", ("cosine-entropy", "entropy", "cosine"))

    @property
    def neutral(self) -> Sample:
        return Sample(n=self.n, draw=self.draw)

    def acted(self, rollouts: Sequence[Any]) -> int:
        return sum(rollout.columns["fork"] > 0 for rollout in rollouts)

    @property
    def score(self) -> Signal:
        return Signal("divergence", of="sampler", metric=self.metric, top_k=self.candidates)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.score,)

    def plan(self, task: TaskRequest) -> Plan:
        column = self.score.column.removeprefix("token.")
        rollouts: list[Rollout] = []
        parents: list[int] = []
        forks: list[int] = []
        chances: list[tuple[int, int]] = []
        for row in range(self.n):
            play = self.draw.play(task, keep=True, first=row)
            u = (key(0, (*task.stream, 1, row)) >> 11) * 2.0**-53
            scores = [_values(rollout, column) for rollout in rollouts]
            best = max((max(s, default=-float("inf")) for s in scores), default=-float("inf"))
            if best == -float("inf") or u < float(self.restart):
                parent, point, chance = -1, 0, (0, row)
                answers = yield [play]
            else:
                parent = next(i for i, s in enumerate(scores) if best in s)
                point, chance = scores[parent].index(best), chances[parent]
                answers = yield [fork(play, rollouts[parent], point, chance)]
            rollouts += rollouts_of(answers)
            parents.append(parent)
            forks.append(point)
            chances.append(chance)
        return planted(rollouts, paths(parents, forks, [length(r) for r in rollouts]), parents)


def _values(rollout: Rollout, column: str) -> Sequence[float]:
    """A column of the tokens of all turns."""
    return [x for turn in rollout.turns for x in turn.tokens[column]]
