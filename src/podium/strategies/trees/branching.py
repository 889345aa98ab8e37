"""Branching after turns: episodes fork where a tool's answer has raised the entropy of the next turn."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError, within
from podium.core.part import Strategy
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.core.streams import key
from podium.strategies.draw import Draw
from podium.strategies.requests import Plan, Play, Resume, TaskRequest, Wave, rollouts_of
from podium.strategies.trees.lineage import PLANTED, length, paths, planted

__all__ = ["Branching"]

ENTROPY = Signal("entropy", of="sampler")


@dataclass(frozen=True)
class _Branch:
    """A rollout with the turns that it copies from another one."""

    rollout: Rollout
    copied: int  # turns
    chance: tuple[int, int]  # wave and index of the rollout whose world's random seed it shares
    parent: int = -1  # the index of the rollout that it copies from; −1: none


class Branching(Strategy):
    """`initial` rollouts of each task, which fork after their turns until there are `n`; if no fork is drawn, the rest
    is sampled from the start.

    After a turn a rollout forks with the probability clip(chance + weight · (H − H_0), 0, 1): H is the entropy of the
    first tokens of the turn, H_0 that of the first turn which the rollout does not copy. A fork copies everything up to
    there and continues on its own; forks after early turns come first, and forks fork again. `turn.node` names each
    turn by the rollout that wrote it.
    """

    reference = "ARPO, https://github.com/dongguanting/ARPO"
    n: int = 16
    initial: int = 8  # rollouts sampled from the start
    weight: Number = 0.2  # of the rise in entropy
    chance: Number = 0.5  # probability of a fork where the entropy has not changed
    tokens: int = 20  # first tokens of a turn whose entropies are summed
    log_vocabulary: float | None = None  # divisor of the sum, in nats; None: the model's, the log of its vocabulary
    draw: Draw = Draw()

    needs = (ENTROPY,)
    provides = (*PLANTED, "turn.node", "rollout.forked")

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "initial", 1)
        within(self, "chance", 0, 1)
        within(self, "tokens", 1)
        within(self, "log_vocabulary", 0, open_low=True, optional=True)

    def probability(self, now: float, first: float) -> float:
        """The probability of a fork, from H and H_0."""
        return min(max(float(self.chance) + float(self.weight) * (now - first), 0.0), 1.0)

    def forks(self, now: float, first: float, u: float) -> bool:
        """Whether the uniform random number u means a fork."""
        moved = min(max(u - float(self.weight) * (now - first), 0.0), 1.0)
        return moved <= float(self.chance)

    def entropy(self, turn: Turn, vocabulary: int | None = None) -> float:
        """H of a turn, written by a model with so many tokens."""
        if self.log_vocabulary is None and not vocabulary:
            raise PodiumError("Branching: the model's vocabulary is not known, so log_vocabulary must be given.")
        largest = self.log_vocabulary or math.log(vocabulary or 0)
        return float(sum(turn.tokens["sampler.entropy"][: self.tokens])) / largest

    def plan(self, task: TaskRequest) -> Plan:
        play = self.draw.play(task, min(self.initial, self.n), columns={"forked": False})
        branches = [_from_start(r, 0) for r in rollouts_of((yield [play]))]
        new, wave = branches, 0
        while len(branches) < self.n:
            wave += 1
            left = self.n - len(branches)
            forks = self._forks(task, new)[:left]
            if forks:
                resumed: Wave = [
                    self._resume(play, branch, turns, len(branches) + i, wave)
                    for i, (branch, turns) in enumerate(forks)
                ]
                answers = rollouts_of((yield resumed))
                new = [
                    _Branch(_named(r, b.rollout.turns[:turns]), turns, b.chance, b.rollout.columns["index"])
                    for (b, turns), r in zip(forks, answers, strict=True)
                ]
            else:
                restarted = dataclasses.replace(play, n=left, first=len(branches), wave=wave)
                new = [_from_start(r, wave) for r in rollouts_of((yield [restarted]))]
            branches = [*branches, *new]
        rollouts = [branch.rollout for branch in branches]
        parents = [branch.parent for branch in branches]
        copied = [sum(len(turn.ids) for turn in b.rollout.turns[: b.copied]) for b in branches]
        return planted(rollouts, paths(parents, copied, [length(r) for r in rollouts]), parents)

    def _forks(self, task: TaskRequest, branches: Sequence[_Branch]) -> list[tuple[_Branch, int]]:
        """The forks drawn for these branches, each with the number of turns that it copies; early turns first."""
        drawn = []
        for order, branch in enumerate(branches):
            turns = branch.rollout.turns
            for end in range(branch.copied + 1, len(turns)):
                name = (*task.stream, branch.rollout.columns["index"], end)
                u = (key(0, name) >> 11) * 2.0**-53
                now, first = (self.entropy(turns[n], task.vocabulary) for n in (end - 1, branch.copied))
                if self.forks(now, first, u):
                    drawn.append((end, order, branch))
        return [(branch, end) for end, _, branch in sorted(drawn, key=lambda fork: fork[:2])]

    @staticmethod
    def _resume(play: Play, branch: _Branch, turns: int, index: int, wave: int) -> Resume:
        one = dataclasses.replace(play, n=1, first=index, wave=wave, columns={"forked": True})
        return Resume(one, tuple(branch.rollout.turns[:turns]), branch.chance)


def _from_start(rollout: Rollout, wave: int) -> _Branch:
    """A rollout that copies nothing."""
    return _Branch(_named(rollout, ()), 0, (wave, rollout.columns["index"]))


def _named(rollout: Rollout, copied: Sequence[Turn]) -> Rollout:
    """The rollout with a name for each of its turns; the copied ones keep theirs."""
    names = [turn.columns["node"] for turn in copied]
    names += [f"{rollout.columns['index']}.{number}" for number in range(len(copied), len(rollout.turns))]
    pairs = zip(rollout.turns, names, strict=False)
    return dataclasses.replace(
        rollout, turns=[dataclasses.replace(turn, columns={**turn.columns, "node": name}) for turn, name in pairs]
    )
