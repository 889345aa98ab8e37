"""Groups in which some rollouts are sampled with help from the start."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from podium.core.build import Rollout
from podium.core.columns import Purpose
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Need
from podium.core.schedule import Number
from podium.core.streams import key
from podium.protocols.context import Context, Full
from podium.protocols.scaffold import Scaffold
from podium.strategies.hints.help import Help, WorkedExamples
from podium.strategies.hints.repair import MARKS, marked
from podium.strategies.requests import Plan, Play, TaskRequest, Wave
from podium.strategies.sample.sample import Sample

__all__ = ["Contrasted", "Guided", "RubricShown"]

BARE = Scaffold()


@dataclasses.dataclass(frozen=True)
class Assigned:
    """The scaffold of each member of a group, a number that says how much help it is, and what was sampled for it."""

    scaffolds: Sequence[Scaffold]
    levels: Sequence[float]
    side: Sequence[Rollout] = ()
    missing: bool = False
    hints: tuple[str, ...] = ()  # of all levels that there were
    earlier: bool = False  # whether these are of an earlier visit


Assigning = Generator[Wave, list[Any], Assigned]


class Guided(Sample):
    """`n` rollouts of each task, the last `guided` of them sampled under help, the others without.

    `level` names a column that a memory recalls: which scaffold of the help the task gets, 0 for none. Without it, or
    beyond the last, it is the first, or the last. Columns as in `Repair`; with `level` also `rollout.hints`, the hints
    of all levels, and `rollout.help.earlier`, 1 where they are of an earlier visit.
    """

    help: Help = WorkedExamples()
    guided: int | None = 1  # None: all
    level: str | None = None  # such as group.hint.level
    scaffold: str = "removed"  # in the prompt that rollouts are trained under: kept or removed

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "scaffold", ("kept", "removed"))
        within(self, "guided", 0, self.n, optional=True)

    @property
    def writer(self) -> str:
        """The role that is asked for help."""
        return self.help.writer

    def prepare(self, world: Any = None) -> tuple[str, ...]:
        return self.help.prepare(world)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (*super().needs, *self.help.needs, *([self.level] if self.level else []))

    @property
    def provides(self) -> tuple[str, ...]:
        remembered = ("rollout.hints", "rollout.help.earlier") if self.level else ()
        return tuple(dict.fromkeys((*super().provides, *MARKS, *remembered)))

    def assigned(self, task: TaskRequest) -> Assigning:
        """Who sees what."""
        level = 1 if self.level is None else int(task.known[self.level])
        count = self.n if self.guided is None else self.guided
        plain = Assigned([BARE] * self.n, [0.0] * self.n)
        if not level or not count:
            return plain
        offer = yield from self.help.offer(task, ())
        if not offer.scaffolds:
            return dataclasses.replace(plain, side=offer.side, missing=True)
        shown = offer.scaffolds[min(level, len(offer.scaffolds)) - 1]
        members = [BARE] * (self.n - count) + [shown] * count
        return Assigned(
            members,
            [level * float(m is shown) for m in members],
            offer.side,
            hints=tuple(scaffold.hint for scaffold in offer.scaffolds),
            earlier=offer.earlier,
        )

    def plan(self, task: TaskRequest) -> Plan:
        found = yield from self.assigned(task)
        runs = [list(run) for _, run in groupby(range(self.n), lambda i: found.scaffolds[i])]
        answers = yield [self._play(task, found.scaffolds[run[0]], run) for run in runs]
        crowded = [run for run, made in zip(runs, answers, strict=True) if not made]
        # Where help leaves no room to answer, the bare question is asked.
        again = (yield [self._play(task, BARE, run) for run in crowded]) if crowded else []
        lost = {i for run in crowded for i in run}
        rows: list[Rollout] = [r for made in (*answers, *again) for r in made]  # type: ignore[misc]
        members = sorted(rows, key=lambda r: r.columns["index"])
        group = [self._member(r, found, i in lost) for i, r in enumerate(members)]
        return [*group, *(self._remembered(marked(r, purpose=Purpose.probe)) for r in found.side)]

    def _play(self, task: TaskRequest, scaffold: Scaffold, members: Sequence[int]) -> Play:
        """Members that see the same."""
        world: Context = Full() if task.world is None else task.world.context
        bare = world if self.context is None else self.context
        seen: dict[str, Any] = {"context": self.context, "train_context": self.train_context}
        if scaffold != BARE:
            trained = self.train_context if self.scaffold == "kept" else bare
            shown = scaffold if scaffold.base != BARE.base else scaffold.replace(base=bare)
            seen = {"context": shown, "train_context": trained}
        sampling = self.sampling(task.sampling)
        return Play(task, len(members), sampling, first=members[0], max_turns=self.max_turns, **seen)

    def _member(self, rollout: Rollout, found: Assigned, lost: bool) -> Rollout:
        level = 0.0 if lost else found.levels[rollout.columns["index"]]
        made = marked(rollout, guided=level > 0, missing=found.missing or lost)
        made = dataclasses.replace(made, columns={**made.columns, "help.level": level})
        return self._remembered(made, found.hints, found.earlier)

    def _remembered(self, rollout: Rollout, hints: tuple[str, ...] = (), earlier: bool = False) -> Rollout:
        """The rollout with what a memory of hints reads, where there is one."""
        said = {"hints": hints, "help.earlier": float(earlier)} if self.level else {}
        return dataclasses.replace(rollout, columns={**rollout.columns, **said})


class RubricShown(Guided):
    """Member i of a group sees a random share λ_i of the task's criteria: from all of them to none, and ever fewer.

    λ_i = (n − 1 − i) / (n − 1) · fade, or with `binary` 1 · fade for the first so many members and 0 for the others; of
    M criteria round(M λ) are shown, halves to even, all from λ = 1 on.
    """

    reference = "RuscaRL, https://arxiv.org/abs/2508.16949"
    fade: Number = 1.0  # a schedule: from 1 to 0
    binary: int | None = None
    note: str = ""  # below the criteria, such as that the answer must not speak of them

    needs = ("task.criteria",)

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "fade", 0)
        within(self, "binary", 0, self.n, optional=True)

    def ratios(self) -> list[float]:
        """λ of each member; a group of one sees everything, always, as in the release."""
        if self.n == 1:
            return [1.0]
        if self.binary is not None:
            return [self.fade * float(i < self.binary) for i in range(self.n)]
        return [self.fade * (self.n - 1 - i) / (self.n - 1) for i in range(self.n)]

    def shown(self, criteria: int) -> list[int]:
        """How many of the criteria each member sees."""
        return [criteria if ratio >= 1 else round(criteria * ratio) for ratio in self.ratios()]

    def assigned(self, task: TaskRequest) -> Assigning:
        yield from ()
        assert task.world is not None
        criteria, scaffolds = task.world.criteria(task.task), []
        for member, count in enumerate(self.shown(len(criteria))):
            order = np.random.default_rng(key(0, (*task.stream, member))).permutation(len(criteria))
            chosen = [criteria[i] for i in sorted(order[:count])]
            include = [c.text for c in chosen if c.points > 0]
            avoid = [f"avoid: {c.text}" for c in chosen if c.points < 0]
            scaffolds.append(Scaffold("\n".join([*include, *avoid]), below=self.note) if chosen else BARE)
        return Assigned(scaffolds, [float(s != BARE) for s in scaffolds])


class Contrasted(Guided):
    """Half of each group is asked to answer in one way, the other half in another; all are trained as asked."""

    reference = "GeometryZero, https://github.com/ekonwang/GeometryZero"
    asks: tuple[str, str] = ("", "")  # what stands below the question for each half; empty: nothing
    scaffold: str = "kept"

    needs = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.asks) != 2:
            raise PodiumError(f"Contrasted.asks = {self.asks!r}: give two texts, one for each half of a group.")

    def assigned(self, task: TaskRequest) -> Assigning:
        yield from ()
        half = (self.n + 1) // 2
        first, second = (Scaffold(below=text) for text in self.asks)
        members = [first] * half + [second] * (self.n - half)
        return Assigned(members, [float(m != BARE) for m in members])
