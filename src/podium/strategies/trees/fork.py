"""Forks: more rollouts from places inside those that are there."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from podium.core.build import Rollout
from podium.core.columns import Purpose
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Need
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.core.streams import key
from podium.strategies.requests import Plan, Play, Read, TaskRequest, Wave
from podium.strategies.sample.sample import Sample
from podium.strategies.trees.fork_points import Places, TopEntropy
from podium.strategies.trees.lineage import PLANTED, fork, head, length, paths, planted

__all__ = ["Fork", "Forked", "Grow"]


class Forked(Sample):
    """What strategies that fork have in common."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.greedy_baseline or self.trained is not None or self.demonstrations:
            name = type(self).__name__
            raise PodiumError(f"{name} has no baseline, voters or demonstrations: all its rollouts are of its forest.")

    @property
    def provides(self) -> tuple[str, ...]:
        return PLANTED

    def play(self, task: TaskRequest, **settings: Any) -> Play:
        """Whole rollouts, from within which others go on."""
        seen: dict[str, Any] = {"context": self.context, "train_context": self.train_context}
        sampling = self.sampling(task.sampling)
        return Play(task, sampling=sampling, keep=True, max_turns=self.max_turns, **seen, **settings)


class Fork(Forked):
    """`n` rollouts, and from the places chosen in each of them `branches` more; a place's own token is written anew.

    The branches are trained like the others, or are of purpose `baseline`: read by those who ask for them, not trained.
    """

    reference = "ETTRL; CURE, https://github.com/bytedance/CURE; SPO, https://github.com/AIFrameResearch/SPO"
    places: Places = TopEntropy()
    branches: int = 2  # at each place
    purpose: str = "train"  # of the branches: train or baseline
    prompt: int | None = None  # tokens that may stand before a branch, the question's too: who has more forks earlier

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "branches", 0)
        within(self, "prompt", 1, optional=True)
        one_of(self, "purpose", ("train", "baseline"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return self.places.needs

    @property
    def provides(self) -> tuple[str, ...]:
        return PLANTED if self.purpose == "train" else (*PLANTED, "rollout.purpose")

    @property
    def rollouts(self) -> int:
        """How many there are where every base has as many places as are asked for."""
        return self.n * (1 + self.places.most * self.branches)

    @property
    def cost(self) -> float:
        """What share of the tokens of so many independent rollouts is sampled, if places lie evenly in the text."""
        more = self.places.most * self.branches
        return (1 + more / 2) / (1 + more)

    def plan(self, task: TaskRequest) -> Plan:
        (made,) = yield [self.play(task, n=self.n)]
        bases: list[Rollout] = made  # type: ignore[assignment]
        texts = [[token for turn in base.turns for token in turn.ids] for base in bases]
        words = yield [Read(tuple(text)) for text in texts]
        branch = self.play(task, n=self.branches, wave=1, purpose=Purpose[self.purpose])
        parents, forks = [-1] * len(bases), [0] * len(bases)
        wave: Wave = []
        for row, base in enumerate(bases):
            numbers = _numbers(base, self.places.column)
            draw = (key(0, (*task.stream, 1, row)) >> 11) * 2.0**-53
            for place in self.places(numbers, words[row], draw) if self.branches else ():  # type: ignore[arg-type]
                place = place if self.prompt is None else head(base, place, self.prompt)
                wave.append(fork(dataclasses.replace(branch, first=len(parents)), base, place, chance=(0, row)))
                parents += [row] * self.branches
                forks += [place] * self.branches
        answers = (yield wave) if wave else []
        rollouts = [*bases, *(r for answer in answers for r in answer)]
        lengths = [length(r) for r in rollouts]  # type: ignore[arg-type]
        return planted(rollouts, paths(parents, forks, lengths), parents)  # type: ignore[arg-type]


class Grow(Forked):
    """`n` rollouts, one after the other: each begins anew with probability `restart`, or else forks where the score of
    a token is highest among all rollouts so far (the earlier rollout and place where several are)."""

    reference = "ROSE, https://github.com/ZiqiZhao1/ROSE-rl"
    restart: Number = 0.5
    metric: str = "cosine-entropy"  # of `divergence`; entropy or cosine alone
    candidates: int = 20  # likeliest tokens whose embeddings are compared

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "restart", 0, 1)
        within(self, "candidates", 2)
        one_of(self, "metric", ("cosine-entropy", "entropy", "cosine"))

    @property
    def score(self) -> Signal:
        return Signal("divergence", of="sampler", metric=self.metric, top_k=self.candidates)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.score,)

    def plan(self, task: TaskRequest) -> Plan:
        column = self.score.column.removeprefix("token.")
        made: list[Rollout] = []
        parents: list[int] = []
        forks: list[int] = []
        chances: list[tuple[int, int]] = []
        for row in range(self.n):
            play = self.play(task, n=1, first=row)
            draw = (key(0, (*task.stream, 1, row)) >> 11) * 2.0**-53
            scores = [_numbers(rollout, column) for rollout in made]
            best = max((max(s, default=-float("inf")) for s in scores), default=-float("inf"))
            if best == -float("inf") or draw < float(self.restart):
                parent, place, chance = -1, 0, (0, row)
                (answer,) = yield [play]
            else:
                parent = next(i for i, s in enumerate(scores) if best in s)
                place, chance = scores[parent].index(best), chances[parent]
                (answer,) = yield [fork(play, made[parent], place, chance)]
            made += answer  # type: ignore[arg-type]
            parents.append(parent)
            forks.append(place)
            chances.append(chance)
        return planted(made, paths(parents, forks, [length(r) for r in made]), parents)


def _numbers(rollout: Rollout, column: str) -> Sequence[float]:
    """What the sampler said of each token, over all turns."""
    return [x for turn in rollout.turns for x in turn.tokens[column]]
