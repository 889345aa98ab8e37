"""Forks where a tool's answer may lead elsewhere: episodes that branch after a turn, more often where entropy rose."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError, within
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.core.streams import key
from podium.strategies.requests import Plan, Play, Resume, TaskRequest, Wave
from podium.strategies.sample.sample import Sample
from podium.strategies.trees.lineage import PLANTED, length, paths, planted

__all__ = ["Branching"]

ENTROPY = Signal("entropy", of="sampler")


@dataclass(frozen=True)
class _Branch:
    """A rollout, the turn from which on it is its own, and where its world's chance comes from."""

    rollout: Rollout
    own: int
    chance: tuple[int, int]
    parent: int = -1  # the index of the rollout that it repeats


class Branching(Sample):
    """`initial` rollouts of each task, which fork after their turns until there are `n`; the rest is sampled anew.

    After a turn a rollout forks with the chance clip(chance + weight · (H − H_0), 0, 1): H is the entropy of the first
    tokens of the turn, H_0 that of its first own one. A fork repeats all up to there and goes on by itself. Forks are
    given out turn by turn, and forks fork again. `turn.node` names each turn by the rollout that wrote it.
    """

    reference = "ARPO, https://github.com/dongguanting/ARPO"
    n: int = 16
    initial: int = 8
    weight: Number = 0.2
    chance: Number = 0.5
    tokens: int = 20  # of a turn whose entropies are added up
    log_vocabulary: float = 11.93  # what the sum is divided by: the largest entropy of a token, nats

    needs = (ENTROPY,)
    provides = (*PLANTED, "turn.node", "rollout.forked")

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "initial", 1)
        within(self, "chance", 0, 1)
        within(self, "tokens", 1)
        within(self, "log_vocabulary", 0, open_low=True)
        if self.greedy_baseline or self.trained is not None or self.demonstrations:
            raise PodiumError("Branching has no baseline, voters or demonstrations: all its rollouts are branches.")

    def probability(self, now: float, first: float) -> float:
        """How likely a fork is."""
        return min(max(float(self.chance) + float(self.weight) * (now - first), 0.0), 1.0)

    def forks(self, now: float, first: float, draw: float) -> bool:
        """Whether a number drawn between 0 and 1 means a fork."""
        moved = min(max(draw - float(self.weight) * (now - first), 0.0), 1.0)
        return moved <= float(self.chance)

    def entropy(self, turn: Turn) -> float:
        """H of a turn."""
        return float(sum(turn.tokens["sampler.entropy"][: self.tokens])) / self.log_vocabulary

    def plan(self, task: TaskRequest) -> Plan:
        play = Play(task, min(self.initial, self.n), self.sampling(task.sampling), columns={"forked": False})
        play = dataclasses.replace(
            play, max_turns=self.max_turns, context=self.context, train_context=self.train_context
        )
        (made,) = yield [play]
        branches = [_whole(r, 0) for r in made]  # type: ignore[arg-type]
        new, wave = branches, 0
        while len(branches) < self.n:
            wave += 1
            room = self.n - len(branches)
            chosen = self._chosen(task, new)[:room]
            fresh = [] if chosen else [dataclasses.replace(play, n=room, first=len(branches), wave=wave)]
            resumed = [self._fork(play, b, end, len(branches) + i, wave) for i, (b, end) in enumerate(chosen)]
            asked: Wave = [*resumed, *fresh]
            answers = yield asked
            if chosen:
                new = [
                    _Branch(_named(answer[0], b.rollout.turns[:end]), end, b.chance, b.rollout.columns["index"])  # type: ignore[arg-type]
                    for (b, end), answer in zip(chosen, answers, strict=True)
                ]
            else:
                new = [_whole(r, wave) for r in answers[0]]  # type: ignore[arg-type]
            branches = [*branches, *new]
        rollouts = [branch.rollout for branch in branches]
        parents = [branch.parent for branch in branches]
        forks = [sum(len(turn.ids) for turn in b.rollout.turns[: b.own]) for b in branches]
        return planted(rollouts, paths(parents, forks, [length(r) for r in rollouts]), parents)

    def _chosen(self, task: TaskRequest, branches: Sequence[_Branch]) -> list[tuple[_Branch, int]]:
        """The forks of these branches, those after early turns first: each with the turns that it repeats."""
        found = []
        for place, branch in enumerate(branches):
            turns = branch.rollout.turns
            for end in range(branch.own + 1, len(turns)):
                name = (*task.stream, branch.rollout.columns["index"], end)
                draw = (key(0, name) >> 11) * 2.0**-53
                if self.forks(self.entropy(turns[end - 1]), self.entropy(turns[branch.own]), draw):
                    found.append((end, place, branch))
        return [(branch, end) for end, _, branch in sorted(found, key=lambda f: f[:2])]

    @staticmethod
    def _fork(play: Play, branch: _Branch, end: int, index: int, wave: int) -> Resume:
        one = dataclasses.replace(play, n=1, first=index, wave=wave, columns={"forked": True})
        return Resume(one, tuple(branch.rollout.turns[:end]), branch.chance)


def _whole(rollout: Rollout, wave: int) -> _Branch:
    """A rollout that is its own from the first turn on."""
    return _Branch(_named(rollout, ()), 0, (wave, rollout.columns["index"]))


def _named(rollout: Rollout, shared: Sequence[Turn]) -> Rollout:
    """The rollout with a name for each of its turns; those that it shares have one already."""
    names = [turn.columns["node"] for turn in shared]
    names += [f"{rollout.columns['index']}.{number}" for number in range(len(shared), len(rollout.turns))]
    pairs = zip(rollout.turns, names, strict=False)
    return dataclasses.replace(
        rollout, turns=[dataclasses.replace(turn, columns={**turn.columns, "node": name}) for turn, name in pairs]
    )
