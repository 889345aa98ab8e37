"""Hints as long as needed: several rounds, each with a share of the solution that the rounds before it suggest."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from podium.core.build import Rollout
from podium.core.columns import Origin, Purpose
from podium.core.errors import PodiumError, within
from podium.core.part import Need
from podium.core.schedule import Number
from podium.core.streams import key
from podium.protocols.context import Context, Full
from podium.protocols.scaffold import Scaffold
from podium.protocols.world import World
from podium.strategies.hints.help import LAST, solution, without_reasoning
from podium.strategies.hints.item_response import ItemResponse
from podium.strategies.hints.repair import MARKS, counted, marked
from podium.strategies.requests import Plan, Play, Recite, TaskRequest, Written
from podium.strategies.sample.sample import Sample

__all__ = ["HintPrefix", "HintRounds"]


class HintRounds(Sample):
    """`rounds` times `n` rollouts of each task, each round after the share of a solution that should make half succeed.

    The share follows from a curve fitted to the rounds so far. Units of a solution are its lines. The first round of a
    task shows all but the last one, later visits begin with the share that the last visit ended with. The longest hint
    is also a demonstration of its own, an answer to the bare question that breaks off.
    """

    reference = "SEELE, https://arxiv.org/abs/2509.06923"
    rounds: int = 4
    response: ItemResponse = ItemResponse()
    style: str = "short"

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "rounds", 1)
        if self.demonstrations or self.greedy_baseline or self.trained is not None:
            raise PodiumError("HintRounds has no baseline, voters or further demonstrations.")

    def prepare(self, world: World | None = None) -> tuple[str, ...]:
        return without_reasoning(world, self.style)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("task.solution", "group.hint.rate")

    @property
    def provides(self) -> tuple[str, ...]:
        return (*MARKS, "rollout.help.next", "rollout.demonstration", "rollout.sampled")

    def plan(self, task: TaskRequest) -> Plan:
        text = yield from solution(task, self.style)
        lines = text.splitlines()
        known = float(task.known.get("group.hint.rate", -1.0))
        rate = known if known >= 0 else (len(lines) - 1) / max(len(lines), 1)
        found: list[tuple[float, float]] = []  # share shown, share of successes
        group: list[Rollout] = []
        for number in range(self.rounds):
            hint = "\n".join(lines[: round(rate * len(lines))])
            (made,) = yield [self._round(task, hint, number)]
            if not made:  # no room for the hint
                hint, lines = "", []
                (made,) = yield [self._round(task, hint, number)]
            share = len(hint.splitlines()) / max(len(lines), 1)
            group += [_noted(r, share, missing=not lines) for r in made]  # type: ignore[arg-type]
            right = [r.columns["reward"] > 0 for r in group[-self.n :]]
            found.append((share, sum(right) / self.n))
            rate = self.response.next(found) if lines else 0.0
        longest = round(max(share for share, _ in found) * len(lines))
        if longest:
            hint = "\n".join(lines[:longest])
            told = Recite(task, (hint,), index=LAST, purpose=Purpose.demo, origin=Origin.hint, ended=False)
            (row,) = yield [told]
            group.append(_noted(row[0], 0.0, missing=False, demonstration=True, sampled=False))  # type: ignore[arg-type]
        return [dataclasses.replace(r, columns={**r.columns, "help.next": rate}) for r in group]

    def _round(self, task: TaskRequest, hint: str, number: int) -> Play:
        world: Context = Full() if task.world is None else task.world.context
        bare = world if self.context is None else self.context
        context = Scaffold(hint, base=bare) if hint else self.context
        first = number * self.n
        return Play(
            task,
            self.n,
            self.sampling(task.sampling),
            first=first,
            wave=number,
            max_turns=self.max_turns,
            context=context,
        )


def _noted(rollout: Rollout, share: float, *, missing: bool, **columns: Any) -> Rollout:
    made = marked(rollout, guided=share > 0, missing=missing)
    own = {"help.level": share, "demonstration": False, "sampled": True, **columns}
    return dataclasses.replace(made, columns={**made.columns, **own})


class HintPrefix(Sample):
    """`n` rollouts of each task, then `hinted` that begin with a part of a solution: the longer the more have failed.

    The share of its tokens is (most − least) · (1 − mean reward) + least + noise, within [0, 1]; where all succeed no
    rollout is hinted. The hint is a part of the answer, of origin `hint`. `rollout.hinted` marks those that begin so.
    """

    reference = "ADHint: Adaptive Hints with Difficulty Priors for Reinforcement Learning"
    n: int = 4
    hinted: int = 4
    least: float = 0.1
    most: float = 0.9
    noise: Number = 0.05  # standard deviation
    style: str = "short"

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "hinted", 1)
        within(self, "least", 0, 1)
        within(self, "most", self.least, 1)
        within(self, "noise", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (*super().needs, "task.solution")

    @property
    def provides(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*super().provides, *MARKS, "rollout.hinted")))

    def share(self, difficulty: float, noise: float) -> float:
        """Of the solution's tokens that are shown."""
        if difficulty == 0:
            return 0.0
        return min(max((self.most - self.least) * difficulty + self.least + noise, 0.0), 1.0)

    def tokens(self, share: float, length: int) -> int:
        """How many of so many tokens that is."""
        return math.floor(share * length)

    def difficulty(self, rewards: Sequence[float]) -> float:
        """1 − mean reward."""
        return 1 - sum(rewards) / len(rewards)

    def plan(self, task: TaskRequest) -> Plan:
        group = yield from super().plan(task)
        difficulty = self.difficulty([r.columns["reward"] for r in counted(group)])
        drawn = float(np.random.default_rng(key(0, task.stream)).normal()) * float(self.noise)
        share = self.share(difficulty, drawn)
        if not share:
            return [self._noted(r) for r in group]
        (found,) = yield [Recite(task, style=self.style, purpose=Purpose.probe, index=LAST, optional=True)]
        written: list[Rollout] = [r for r in found if r.columns["correct"]]  # type: ignore[union-attr,misc]
        ids = tuple(written[0].turns[0].ids)[:-1] if written else ()  # without the end of the turn
        shown = ids[: self.tokens(share, len(ids))]
        if not shown:
            return [self._noted(r, missing=not written) for r in group]
        begun = Written(shown, origin=Origin.hint, scored=True)
        play = Play(task, self.hinted, self.sampling(task.sampling), first=len(group), wave=1, begun=begun)
        (made,) = yield [dataclasses.replace(play, max_turns=self.max_turns, context=self.context)]
        hinted: list[Rollout] = made  # type: ignore[assignment]
        return [*(self._noted(r) for r in group), *(self._noted(r, share) for r in hinted)]

    @staticmethod
    def _noted(rollout: Rollout, share: float = 0.0, *, missing: bool = False) -> Rollout:
        made = marked(rollout, guided=share > 0, missing=missing)
        return dataclasses.replace(made, columns={**made.columns, "hinted": share > 0, "help.level": share})
