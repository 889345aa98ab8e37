"""Repairing failed groups: help is asked for where rollouts fail, and its results replace or join them."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence
from typing import Any

from podium.core.build import Rollout, Turn
from podium.core.columns import Origin, Purpose
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Need, Strategy
from podium.core.schedule import Number
from podium.protocols.scaffold import Scaffold
from podium.strategies.draw import Draw
from podium.strategies.hints.checklist import BestAttempt, failed, rubric_share
from podium.strategies.hints.help import Help, Offer, SolutionShares
from podium.strategies.judged.judged_rollouts import criteria_judged
from podium.strategies.requests import PairJudge, Plan, Play, TaskRequest, Wave, rollouts_of

__all__ = ["MARKS", "Refine", "Repair", "helped", "marked", "play_under", "under_level"]

# The columns that say what help had to do with a rollout.
MARKS = (
    *("token.origin", "rollout.purpose", "rollout.guided", "rollout.plain"),
    *("rollout.help.level", "rollout.help.missing"),
)
TRIGGERS = ("all wrong", "all alike", "some wrong", "imperfect", "always")


class Repair(Strategy):
    """`n` rollouts of each task; where they fail, help is asked for, and its results replace or join the group.

    `when` says which groups are repaired: those without a success (`all wrong`), those that all fail or all succeed
    (`all alike`), those with a failure (`some wrong`), those without a reward of 1 (`imperfect`), or `always`. Under
    each scaffold of the help `tries` rollouts are sampled, one scaffold after another until one succeeds, or all at
    once. Then, by `take`:

    - `group`: the rollouts under the last scaffold tried replace the group, whether they succeed or not;
    - `rows`: the success with the least help replaces a failed rollout; a ready answer replaces the one it is for;
    - `add`: up to `most` results that are better than the group's best rollout join it;
    - `candidates`: ready answers join with purpose `probe`, for a keep part to choose from.

    Replaced rollouts stay on record. `rollout.guided` marks rollouts made with help, `rollout.plain` the others;
    `rollout.help.level` is the number of the scaffold; `rollout.help.missing` is 1 in a group for which there was no
    help: no solution, one that does not verify, or one that does not fit into the context.
    """

    n: int = 8
    help: Help = SolutionShares()
    when: str = "all wrong"
    tries: int | None = None  # rollouts under each scaffold; None: n
    search: str = "in turn"  # or at once
    take: str = "group"
    most: int = 1  # results that join the group
    scaffold: str = "kept"  # in the prompt that rollouts are trained under: kept, removed, or both (a copy of each)
    active: Number = 1.0  # 0: no help
    success: float = 0.0  # a reward above it is a success
    draw: Draw = Draw()

    def __post_init__(self) -> None:
        within(self, "n", 1)
        one_of(self, "when", TRIGGERS)
        one_of(self, "search", ("in turn", "at once"))
        one_of(self, "take", ("group", "rows", "add", "candidates"))
        one_of(self, "scaffold", ("kept", "removed", "both"))
        within(self, "tries", 1, optional=True)
        within(self, "most", 1)
        if self.scaffold == "both" and self.take != "rows":
            raise PodiumError("Repair(scaffold='both') puts two copies of a rollout into the group: set take='rows'.")

    def prepare(self, world: Any = None) -> tuple[str, ...]:
        return self.help.prepare(world)

    @property
    def needs(self) -> tuple[Need, ...]:
        return self.help.needs

    @property
    def provides(self) -> tuple[str, ...]:
        return MARKS

    @property
    def roles_asked(self) -> tuple[str, ...]:
        return self.help.roles_asked

    @property
    def writers(self) -> tuple[str, ...]:
        return (*self.seated, *self.help.writers)

    @property
    def neutral(self) -> Repair:
        return self.replace(active=0.0)

    def acted(self, rollouts: Sequence[Any]) -> int:
        return helped(rollouts)

    def plan(self, task: TaskRequest) -> Plan:
        sampled = rollouts_of((yield [self.draw.play(task, self.n)]))
        group = yield from self.assessed(task, [marked(r) for r in sampled])
        if not self.active or not self.needs_help([self.value(task, r) for r in group]):
            return group
        offer = yield from self.help.offer(task, group)
        tried = yield from self._try(task, offer.scaffolds, 1 + max(r.columns["index"] for r in group))
        return [*self._repaired(task, group, tried, offer), *map(marked, offer.side)]

    def assessed(self, task: TaskRequest, rollouts: Sequence[Rollout]) -> Plan:
        """A sub-plan that returns the rollouts with what their value depends on."""
        yield from ()
        return list(rollouts)

    def value(self, task: TaskRequest, rollout: Rollout) -> float:
        """How good a rollout is."""
        return float(rollout.columns["reward"])

    def needs_help(self, values: Sequence[float]) -> bool:
        """Whether a group with these values is repaired."""
        right = [value > self.success for value in values]
        if self.when == "all wrong":
            return not any(right)
        if self.when == "all alike":
            return not any(right) or all(right)
        if self.when == "some wrong":
            return not all(right)
        return self.when == "always" or max(values, default=1.0) < 1

    def _try(
        self, task: TaskRequest, scaffolds: Sequence[Scaffold], first: int
    ) -> Generator[Wave, list[Any], list[list[Rollout]]]:
        """The rollouts under each scaffold that was tried; none where it left no tokens for an answer."""
        n, kept = self.n if self.tries is None else self.tries, self.scaffold == "kept"
        plays = [
            play_under(self.draw, task, scaffold, n, first=first + i * n, wave=i + 1, kept=kept)
            for i, scaffold in enumerate(scaffolds)
        ]
        if self.search == "at once":
            answers = (yield list(plays)) if plays else []
            levels = [under_level(rollouts, level) for level, rollouts in enumerate(answers, 1)]
            assessed = iter((yield from self.assessed(task, [r for rollouts in levels for r in rollouts])))
            return [[next(assessed) for _ in rollouts] for rollouts in levels]
        tried: list[list[Rollout]] = []
        for level, play in enumerate(plays, 1):
            (rollouts,) = yield [play]
            tried.append((yield from self.assessed(task, under_level(rollouts, level))))
            if any(self.value(task, r) > self.success for r in tried[-1]):
                break
        return tried

    def _repaired(
        self, task: TaskRequest, group: Sequence[Rollout], tried: Sequence[Sequence[Rollout]], offer: Offer
    ) -> list[Rollout]:
        """The group after the repair, followed by the rollouts that were replaced."""
        sampled = [r for rollouts in tried for r in rollouts]
        ready = [marked(r, guided=True) for r in offer.answers]
        if not sampled and not ready:
            return [marked(r, missing=True) for r in group]
        if self.take == "candidates":
            return [*group, *(marked(r, purpose=Purpose.probe) for r in ready)]
        if self.take == "group":
            last = next(rollouts for rollouts in reversed(tried) if rollouts)
            return [*last, *_replaced([*group, *sampled], last)]
        if self.take == "add":
            best = max(self.value(task, r) for r in group)
            better = sorted((r for r in sampled if self.value(task, r) > best), key=lambda r: -self.value(task, r))
            joined = [*ready, *better][: self.most]
            return [*group, *joined, *_replaced(sampled, joined)]
        right = [r for r in sampled if self.value(task, r) > self.success][:1]
        copies = right if self.scaffold != "both" else [v for r in right for v in _both(r, len(group) + len(sampled))]
        new = [*copies, *ready]
        replacement = dict(zip(range(len(new)) if offer.replaces is None else offer.replaces, new, strict=True))
        kept = [replacement.get(i, r) for i, r in enumerate(group)]
        return [*kept, *_replaced([*group, *sampled], [*kept, *right])]


class Refine(Repair):
    """`n` rollouts; where the best one fails some criteria, it is shown with those criteria, to be improved.

    A better rollout joins the group and is trained as an answer to the bare question. Rollouts are valued by their
    rubric score: which criteria they meet is decided by the world's rules, or by a `judge`.
    """

    reference = "RGR-GRPO: Reward and Guidance through Rubrics"
    help: Help = BestAttempt()
    when: str = "imperfect"
    tries: int | None = 1
    search: str = "at once"
    take: str = "add"
    scaffold: str = "removed"
    judge: PairJudge | None = None  # None: the world's rules

    @property
    def roles_asked(self) -> tuple[str, ...]:
        return (*super().roles_asked, *(() if self.judge is None else self.judge.roles))

    @property
    def writers(self) -> tuple[str, ...]:
        return (*super().writers, *(() if self.judge is None else self.judge.writers))

    def assessed(self, task: TaskRequest, rollouts: Sequence[Rollout]) -> Plan:
        if self.judge is None:
            return (yield from super().assessed(task, rollouts))
        return (yield from criteria_judged(task, rollouts, self.judge))

    def value(self, task: TaskRequest, rollout: Rollout) -> float:
        return rubric_share(task, rollout) if failed(task, rollout) else 1.0


def play_under(draw: Draw, task: TaskRequest, scaffold: Scaffold, n: int, *, first: int, wave: int, kept: bool) -> Play:
    """A request for rollouts under a scaffold, trained with it in the prompt (`kept`) or under the bare question."""
    bare = draw.context_of(task)
    context, train_context = scaffold.replace(base=bare), None if kept else bare
    return draw.play(task, n, first=first, wave=wave, context=context, train_context=train_context)


def marked(
    rollout: Rollout,
    *,
    guided: bool | None = None,
    missing: bool = False,
    purpose: Purpose | None = None,
    **columns: Any,
) -> Rollout:
    """The rollout with the columns of `MARKS`; what is not given stays as it was."""
    old = rollout.columns
    guided = old.get("guided", False) if guided is None else guided
    marks = {
        "guided": guided,
        "plain": not guided,
        "help.level": old.get("help.level", 0.0),
        "help.missing": float(missing),
        "purpose": old["purpose"] if purpose is None else int(purpose),
    }
    turns = [_with_origin(turn) for turn in rollout.turns]
    return dataclasses.replace(rollout, turns=turns, columns={**old, **marks, **columns})


def helped(rollouts: Sequence[Rollout]) -> int:
    """How many of these rollouts were made with help."""
    return sum(bool(r.columns["guided"]) for r in rollouts)


def under_level(rollouts: Sequence[Rollout], level: int) -> list[Rollout]:
    """Rollouts marked as sampled under the scaffold with this number."""
    guided = [marked(r, guided=True) for r in rollouts]
    return [dataclasses.replace(r, columns={**r.columns, "help.level": float(level)}) for r in guided]


def _with_origin(turn: Turn) -> Turn:
    """The turn with an origin for each token: where some tokens are not the policy's, all must say whose they are."""
    return turn if turn.origin is not None else dataclasses.replace(turn, origin=[Origin.policy.name] * len(turn.ids))


def _replaced(rollouts: Sequence[Rollout], kept: Sequence[Rollout]) -> list[Rollout]:
    """The rollouts that are not among the kept ones, with the purpose `replaced`."""
    return [marked(r, purpose=Purpose.replaced) for r in rollouts if not any(r is other for other in kept)]


def _both(rollout: Rollout, index: int) -> list[Rollout]:
    """A rollout as trained under the scaffold, and a copy of it as trained under the bare question."""
    with_scaffold = [dataclasses.replace(turn, train_context=None) for turn in rollout.turns]
    return [dataclasses.replace(rollout, turns=with_scaffold), marked(rollout, index=index)]
