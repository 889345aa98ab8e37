"""Groups in which some rollouts are sampled with help in the prompt from the start."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from podium.core.build import Rollout
from podium.core.columns import Purpose
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Need, Strategy
from podium.core.schedule import Number
from podium.core.streams import key
from podium.protocols.scaffold import Scaffold
from podium.strategies.draw import Draw
from podium.strategies.hints.help import Help, WorkedExamples
from podium.strategies.hints.repair import MARKS, helped, marked
from podium.strategies.judged.judged_rollouts import criteria_judged
from podium.strategies.requests import PairJudge, Plan, Play, TaskRequest, Wave, rollouts_of

__all__ = ["BARE", "Assigned", "Assigning", "Contrasted", "Guided", "RubricShown", "sample_assigned"]

BARE = Scaffold()


@dataclasses.dataclass(frozen=True)
class Assigned:
    """Which scaffold each member of a group is sampled under, and how much help that is."""

    scaffolds: Sequence[Scaffold]
    levels: Sequence[float]  # 0: no help
    side: Sequence[Rollout] = ()  # rollouts that were sampled to make the help
    missing: bool = False  # whether there was no help to assign
    hints: tuple[str, ...] = ()  # the hints of all levels
    earlier: bool = False  # whether the hints are those of an earlier visit


Assigning = Generator[Wave, list[Any], Assigned]


def sample_assigned(
    task: TaskRequest, draw: Draw, assigned: Assigned, *, scaffold: str = "kept", note_hints: bool = False
) -> Plan:
    """A plan that samples each member of a group under the scaffold assigned to it.

    Where a scaffold leaves no tokens for an answer, the bare question is asked instead. `scaffold` says whether the
    rollouts are trained with it in the prompt (`kept`, `removed`); `note_hints` adds the columns that a memory of hints
    reads.
    """
    members = range(len(assigned.scaffolds))
    runs = [list(run) for _, run in groupby(members, lambda i: assigned.scaffolds[i])]
    answers = yield [_play(task, draw, assigned.scaffolds[run[0]], run, scaffold) for run in runs]
    crowded = [run for run, answer in zip(runs, answers, strict=True) if not answer]
    retried = (yield [_play(task, draw, BARE, run, scaffold) for run in crowded]) if crowded else []
    without_help = {i for run in crowded for i in run}
    group = []
    for i, rollout in enumerate(sorted(rollouts_of([*answers, *retried]), key=lambda r: r.columns["index"])):
        lost = i in without_help
        level = 0.0 if lost else assigned.levels[rollout.columns["index"]]
        member = marked(rollout, guided=level > 0, missing=assigned.missing or lost)
        columns = {"help.level": level}
        group.append(dataclasses.replace(member, columns={**member.columns, **columns}))
    side = [marked(r, purpose=Purpose.probe) for r in assigned.side]
    if not note_hints:
        return [*group, *side]
    return [
        *(_with_hints(r, assigned.hints, assigned.earlier) for r in group),
        *(_with_hints(r, (), False) for r in side),
    ]


def _play(task: TaskRequest, draw: Draw, scaffold: Scaffold, members: Sequence[int], trained: str) -> Play:
    """A request for consecutive members that see the same scaffold."""
    if scaffold == BARE:
        return draw.play(task, len(members), first=members[0])
    bare = draw.context_of(task)
    context = scaffold if scaffold.base != BARE.base else scaffold.replace(base=bare)
    train_context = draw.train_context if trained == "kept" else bare
    return draw.play(task, len(members), first=members[0], context=context, train_context=train_context)


def _with_hints(rollout: Rollout, hints: tuple[str, ...], earlier: bool) -> Rollout:
    columns = {"hints": hints, "help.earlier": float(earlier)}
    return dataclasses.replace(rollout, columns={**rollout.columns, **columns})


class Guided(Strategy):
    """`n` rollouts of each task, the last `guided` of them sampled with help in the prompt.

    `level` names a column that a memory recalls: the number of the scaffold that the task gets, 0 for none; beyond the
    last one it is the last. Without `level` it is the first scaffold. Writes the columns of `Repair`; with `level` also
    `rollout.hints`, the hints of all levels, and `rollout.help.earlier`, 1 where they are those of an earlier visit.
    """

    n: int = 8
    help: Help = WorkedExamples()
    guided: int | None = 1  # how many rollouts are sampled with help; None: all
    level: str | None = None  # a column such as group.hint.level
    scaffold: str = "removed"  # whether rollouts are trained with the scaffold in the prompt: kept or removed
    draw: Draw = Draw()

    def __post_init__(self) -> None:
        within(self, "n", 1)
        one_of(self, "scaffold", ("kept", "removed"))
        within(self, "guided", 0, self.n, optional=True)

    def prepare(self, world: Any = None) -> tuple[str, ...]:
        return self.help.prepare(world)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (*self.help.needs, *([self.level] if self.level else []))

    @property
    def provides(self) -> tuple[str, ...]:
        return (*MARKS, *(("rollout.hints", "rollout.help.earlier") if self.level else ()))

    @property
    def neutral(self) -> Guided:
        return self.replace(guided=0)

    def acted(self, rollouts: Sequence[Any]) -> int:
        return helped(rollouts)

    def plan(self, task: TaskRequest) -> Plan:
        assigned = yield from self.assigned(task)
        return (
            yield from sample_assigned(task, self.draw, assigned, scaffold=self.scaffold, note_hints=bool(self.level))
        )

    def assigned(self, task: TaskRequest) -> Assigning:
        """Which members see which scaffold."""
        level = 1 if self.level is None else int(task.recalled[self.level])
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


class RubricShown(Strategy):
    """`n` rollouts of each task, of which the first see all criteria of the answer, the last none, the others a part.

    Member i sees a random share λ_i = (n − 1 − i) / (n − 1) · fade of the criteria; with `binary` it is fade for the
    first so many members and 0 for the others. Of M criteria round(M λ) are shown, half to even; all where λ ≥ 1.
    """

    reference = "RuscaRL, https://arxiv.org/abs/2508.16949"
    n: int = 8
    fade: Number = 1.0  # a schedule from 1 to 0
    binary: int | None = None  # members that see criteria, all the same share; None: shares fall from member to member
    note: str = ""  # stands below the criteria, for example that the answer must not mention them
    scaffold: str = "removed"  # whether rollouts are trained with the criteria in the prompt: kept or removed
    draw: Draw = Draw()
    judge: PairJudge | None = None  # who decides which criteria are met; None: the world's rules

    needs = ("task.criteria",)
    provides = MARKS

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "fade", 0)
        within(self, "binary", 0, self.n, optional=True)
        one_of(self, "scaffold", ("kept", "removed"))

    @property
    def roles_asked(self) -> tuple[str, ...]:
        return () if self.judge is None else self.judge.roles

    @property
    def writers(self) -> tuple[str, ...]:
        return () if self.judge is None else self.judge.writers

    @property
    def neutral(self) -> RubricShown:
        return self.replace(fade=0.0)

    def acted(self, rollouts: Sequence[Any]) -> int:
        return helped(rollouts)

    def ratios(self) -> list[float]:
        """λ of each member. A group of one always sees everything, as in the release."""
        if self.n == 1:
            return [1.0]
        if self.binary is not None:
            return [self.fade * float(i < self.binary) for i in range(self.n)]
        return [self.fade * (self.n - 1 - i) / (self.n - 1) for i in range(self.n)]

    def shown(self, criteria: int) -> list[int]:
        """How many of the criteria each member sees."""
        return [criteria if ratio >= 1 else round(criteria * ratio) for ratio in self.ratios()]

    def plan(self, task: TaskRequest) -> Plan:
        assert task.world is not None
        criteria, scaffolds = task.world.criteria(task.task), []
        for member, count in enumerate(self.shown(len(criteria))):
            order = np.random.default_rng(key(0, (*task.stream, member))).permutation(len(criteria))
            chosen = [criteria[i] for i in sorted(order[:count])]
            include = [c.text for c in chosen if c.points > 0]
            avoid = [f"avoid: {c.text}" for c in chosen if c.points < 0]
            scaffolds.append(Scaffold("\n".join([*include, *avoid]), below=self.note) if chosen else BARE)
        assigned = Assigned(scaffolds, [float(s != BARE) for s in scaffolds])
        group = yield from sample_assigned(task, self.draw, assigned, scaffold=self.scaffold)
        return group if self.judge is None else (yield from criteria_judged(task, group, self.judge))


class Contrasted(Strategy):
    """`n` rollouts of each task: the two halves are asked to answer in different ways, and are trained as asked."""

    reference = "GeometryZero, https://github.com/ekonwang/GeometryZero"
    n: int = 8
    asks: tuple[str, str] = ("", "")  # what stands below the question for each half; empty: nothing
    draw: Draw = Draw()

    provides = MARKS

    def __post_init__(self) -> None:
        within(self, "n", 1)
        if len(self.asks) != 2:
            raise PodiumError(f"Contrasted.asks = {self.asks!r}: give two texts, one for each half of a group.")

    @property
    def neutral(self) -> Contrasted:
        return self.replace(asks=("", ""))

    def acted(self, rollouts: Sequence[Any]) -> int:
        return helped(rollouts)

    def plan(self, task: TaskRequest) -> Plan:
        half = (self.n + 1) // 2
        first, second = (Scaffold(below=text) for text in self.asks)
        members = [first] * half + [second] * (self.n - half)
        return (yield from sample_assigned(task, self.draw, Assigned(members, [float(m != BARE) for m in members])))
