"""Groups that went wrong: help is asked for, and what it makes takes the place of failures."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence
from typing import Any

from podium.core.build import Rollout, Turn
from podium.core.columns import COUNTS, Origin, Purpose
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Need
from podium.core.schedule import Number
from podium.protocols.context import Context, Full
from podium.protocols.scaffold import Scaffold
from podium.strategies.hints.checklist import BestAttempt, failed, rubric_share
from podium.strategies.hints.help import Help, Offer, SolutionShares
from podium.strategies.requests import Plan, Play, TaskRequest, Wave
from podium.strategies.sample.sample import Sample

__all__ = ["MARKS", "Refine", "Repair", "counted", "marked"]

# What rollouts of a strategy with help say of it.
MARKS = (
    *("token.origin", "rollout.purpose", "rollout.guided", "rollout.plain"),
    *("rollout.help.level", "rollout.help.missing"),
)
TRIGGERS = ("all wrong", "all alike", "some wrong", "imperfect", "always")


class Repair(Sample):
    """`n` rollouts of each task; where they fail, help is asked for, and what it makes takes their place.

    `when` says which groups: those without a success (`all wrong`), those that all succeed too (`all alike`), with any
    failure (`some wrong`), without a reward of 1 (`imperfect`). Under each scaffold of the help `tries` rollouts are
    sampled, one scaffold after another until there is a success, or all at once. Then, by `take`:

    - `group`: those under the last scaffold tried stand for the group, whether they succeed or not;
    - `rows`: the success with the least help replaces the first `most` rows; an answer that is there already, its own;
    - `add`: up to `most` of them that are better than the group's best join it;
    - `candidates`: answers join as purpose `probe`, for a keep part to choose from.

    What is replaced stays on record. `rollout.guided` marks what was made with help, `rollout.plain` the others,
    `rollout.help.level` is the number of the scaffold, and `rollout.help.missing` is 1 in a group for which there was
    none: no solution, one that does not verify, or no room for it in the context.
    """

    help: Help = SolutionShares()
    when: str = "all wrong"
    tries: int | None = None  # rollouts under each scaffold; None: n
    search: str = "in turn"  # or at once
    take: str = "group"
    most: int = 1
    scaffold: str = "kept"  # in the prompt that rollouts are trained under: kept, removed, or a copy of both kinds
    active: Number = 1.0  # 0: no help
    success: float = 0.0  # a reward above it is one

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "when", TRIGGERS)
        one_of(self, "search", ("in turn", "at once"))
        one_of(self, "take", ("group", "rows", "add", "candidates"))
        one_of(self, "scaffold", ("kept", "removed", "both"))
        within(self, "tries", 1, optional=True)
        within(self, "most", 1)
        if self.scaffold == "both" and self.take != "rows":
            raise PodiumError("Repair(scaffold='both') puts two copies of a rollout into the group: set take='rows'.")

    @property
    def writer(self) -> str:
        """The role that is asked for help."""
        return self.help.writer

    def prepare(self, world: Any = None) -> tuple[str, ...]:
        return self.help.prepare(world)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (*super().needs, *self.help.needs)

    @property
    def provides(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*super().provides, *MARKS)))

    def plan(self, task: TaskRequest) -> Plan:
        group = [marked(r) for r in (yield from super().plan(task))]
        if not self.active or not self.asks([self.value(task, r) for r in counted(group)]):
            return group
        offer = yield from self.help.offer(task, group)
        tried = yield from self._tried(task, offer.scaffolds, 1 + max(r.columns["index"] for r in group))
        return [*self.taken(task, group, tried, offer), *map(marked, offer.side)]

    def value(self, task: TaskRequest, rollout: Rollout) -> float:
        """How good a rollout is."""
        return float(rollout.columns["reward"])

    def asks(self, values: Sequence[float]) -> bool:
        """Whether a group with these values needs help."""
        right = [value > self.success for value in values]
        if self.when == "all wrong":
            return not any(right)
        if self.when == "all alike":
            return not any(right) or all(right)
        if self.when == "some wrong":
            return not all(right)
        return self.when == "always" or max(values, default=1.0) < 1

    def _tried(
        self, task: TaskRequest, scaffolds: Sequence[Scaffold], first: int
    ) -> Generator[Wave, list[Any], list[list[Rollout]]]:
        """The rollouts under each scaffold that was tried; none where it left no room to answer."""
        n = self.n if self.tries is None else self.tries
        plays = [self.under(task, s, n, first + i * n, wave=i + 1) for i, s in enumerate(scaffolds)]
        if self.search == "at once":
            answers = (yield list(plays)) if plays else []
            return [_helped(made, level) for level, made in enumerate(answers, 1)]
        tried: list[list[Rollout]] = []
        for level, play in enumerate(plays, 1):
            (made,) = yield [play]
            tried.append(_helped(made, level))
            if any(self.value(task, r) > self.success for r in made):
                break
        return tried

    def under(self, task: TaskRequest, scaffold: Scaffold, n: int, first: int, wave: int) -> Play:
        """Rollouts under a scaffold; what they are trained under is the same, or the bare question."""
        world: Context = Full() if task.world is None else task.world.context
        bare = world if self.context is None else self.context
        return Play(
            task,
            n,
            self.sampling(task.sampling),
            first=first,
            wave=wave,
            max_turns=self.max_turns,
            context=scaffold.replace(base=bare),
            train_context=None if self.scaffold == "kept" else bare,
        )

    def taken(
        self, task: TaskRequest, group: Sequence[Rollout], tried: Sequence[Sequence[Rollout]], offer: Offer
    ) -> list[Rollout]:
        """The group after the repair, and after it what was replaced."""
        found = [r for made in tried for r in made]
        ready = [marked(r, guided=True) for r in offer.answers]
        if not found and not ready:
            return [marked(r, missing=True) for r in group]
        if self.take == "candidates":
            return [*group, *(marked(r, purpose=Purpose.probe) for r in ready)]
        if self.take == "group":
            last = next(made for made in reversed(tried) if made)
            return [*last, *_replaced([*group, *found], last)]
        if self.take == "add":
            best = max(self.value(task, r) for r in counted(group))
            better = sorted((r for r in found if self.value(task, r) > best), key=lambda r: -self.value(task, r))
            joined = [*ready, *better][: self.most]
            return [*group, *joined, *_replaced(found, joined)]
        right = [r for r in found if self.value(task, r) > self.success][:1]
        copies = right if self.scaffold != "both" else [v for r in right for v in _both(r, len(group) + len(found))]
        fresh = [*copies, *ready]
        new = dict(zip(range(len(fresh)) if offer.places is None else offer.places, fresh, strict=True))
        kept = [new.get(place, r) for place, r in enumerate(group)]
        return [*kept, *_replaced([*group, *found], [*kept, *right])]


class Refine(Repair):
    """`n` rollouts; where the best does not meet all criteria, it is shown with those it misses, to be done better.

    A better one joins the group, and is trained as an answer to the bare question. How good a rollout is says the
    world's checklist.
    """

    reference = "RGR-GRPO: Reward and Guidance through Rubrics"
    help: Help = BestAttempt()
    when: str = "imperfect"
    tries: int | None = 1
    search: str = "at once"
    take: str = "add"
    scaffold: str = "removed"

    def value(self, task: TaskRequest, rollout: Rollout) -> float:
        return rubric_share(task, rollout) if failed(task, rollout) else 1.0


def counted(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """Those who count in statistics."""
    return [r for r in rollouts if r.columns["purpose"] in COUNTS]


def marked(
    rollout: Rollout,
    *,
    guided: bool | None = None,
    missing: bool = False,
    purpose: Purpose | None = None,
    **columns: Any,
) -> Rollout:
    """The rollout with the columns that say what help had to do with it."""
    known = rollout.columns
    guided = known.get("guided", False) if guided is None else guided
    new = {
        "guided": guided,
        "plain": not guided,
        "help.level": known.get("help.level", 0.0),
        "help.missing": float(missing),
        "purpose": known["purpose"] if purpose is None else int(purpose),
    }
    turns = [_signed(turn) for turn in rollout.turns]
    return dataclasses.replace(rollout, turns=turns, columns={**known, **new, **columns})


def _signed(turn: Turn) -> Turn:
    """The turn with who wrote each token: where others write too, everybody's tokens say so."""
    return turn if turn.origin is not None else dataclasses.replace(turn, origin=[Origin.policy.name] * len(turn.ids))


def _helped(made: Sequence[Rollout], level: int) -> list[Rollout]:
    found = [marked(r, guided=True) for r in made]
    return [dataclasses.replace(r, columns={**r.columns, "help.level": float(level)}) for r in found]


def _replaced(rollouts: Sequence[Rollout], kept: Sequence[Rollout]) -> list[Rollout]:
    """Those that are not among the kept ones, as only recorded."""
    return [marked(r, purpose=Purpose.replaced) for r in rollouts if not any(r is other for other in kept)]


def _both(rollout: Rollout, index: int) -> list[Rollout]:
    """A rollout as trained under the scaffold, and a copy of it under the bare question."""
    kept = [dataclasses.replace(turn, train_context=None) for turn in rollout.turns]
    return [dataclasses.replace(rollout, turns=kept), marked(rollout, index=index)]
