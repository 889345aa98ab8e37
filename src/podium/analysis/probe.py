"""What each part of a method does: the method with one part replaced by what does nothing in its place.

`replacements` lists those methods. `podium.sessions.probe` trains each of them under the same random numbers as the
method itself and measures how far the weights move apart.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from podium.core.activity import label
from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.memory import Memory, State
from podium.core.part import Columns, Metric, Need, Part, Strategy
from podium.core.signal import Signal
from podium.core.term import Term
from podium.core.updates import Updates
from podium.core.value import Value
from podium.method import Method
from podium.method.check import known_columns, met
from podium.method.method import LISTS
from podium.methods import get
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import Draw, Sample

__all__ = ["Replacement", "added_parts", "parent", "relative_distance", "replacements", "weight_vector"]

LEVELS = ("token", "turn", "step", "rollout", "group", "task", "batch")  # that every batch has, or may have


@dataclass(frozen=True)
class Replacement:
    """A method with one part replaced."""

    part: str  # its name, such as shape.Whiten; in phases with the number of its method in front, after that of another
    # part of the same name with a number behind
    by: str  # what stands in its place, and which parts went with it
    method: Method | None  # None: the part cannot be replaced
    reason: str = ""  # why it cannot


def relative_distance(one: Tensor, other: Tensor, start: Tensor) -> float:
    """‖one − other‖ / ‖one − start‖: how far two updates from `start` are apart, as a share of the first."""
    apart, moved = float((one - other).norm()), float((one - start).norm())
    return 0.0 if apart == 0 else apart / moved if moved else float("inf")


def parent(method: Method, extends: str = "grpo") -> Method:
    """What a method changes, with its rollouts per task, sampling temperature and updates: GRPO without its KL penalty
    for most, else the method `extends` of the catalogue."""
    main = method.main()
    neutral = _usual_strategy(main.rollout or Sample())
    plain = Sample(n=neutral.n or Sample().n, draw=Draw(temperature=neutral.temperature))
    updates = Updates(main.updates.passes, main.updates.mini_batches)
    if extends == "grpo":
        return Method(
            "parent",
            rollout=plain,
            advantage=Normalize(),
            objective=(PolicyGradient(clip=Clip(0.2, 0.2)),),
            updates=updates,
            protocol=main.protocol,
        )

    def sized(leaf: Method) -> Method:
        strategy = leaf.rollout or plain
        return leaf.replace(
            rollout=strategy.replace(n=plain.n) if "n" in strategy.field_names() else strategy,
            updates=leaf.updates.replace(mini_batches=updates.mini_batches),
            protocol=main.protocol,
        )

    return get(extends).each(sized)


def replacements(method: Method, columns: Iterable[str]) -> Iterator[Replacement]:
    """The method without each of its parts in turn: its neutral form in its place, or nothing, or what is usual there.

    Parts that read columns which only the replaced one writes are replaced with it. Where the method cannot do without
    them, they get the settings with which they do not read these columns, and a memory one that never observes
    anything. `columns` are those of the world.
    """
    have = frozenset(columns)

    def refusals(changed: Method) -> list[str]:
        return [finding.message for finding in changed.check(have) if finding.kind == "error"]

    known = set(refusals(method))
    for name, number, leaf, item in _named(method):
        if _without(leaf, item) is None:
            continue
        reason = ""
        for way in _ways(leaf, item, have):
            whole = _exchanged(method, number, way.method)
            wrong = [text for text in refusals(whole) if text not in known]
            if not wrong:
                yield Replacement(name, way.by, whole)
                break
            reason = reason or wrong[0]
        else:
            yield Replacement(name, "–", None, reason or "another part cannot do without it")


def added_parts(method: Method, base: Method) -> set[str]:
    """The names of the parts that a method has and `base` has not, or not with these settings."""
    there = [item for *_, item in _named(base)]
    return {name for name, *_, item in _named(method) if item not in there}


def _named(method: Method) -> Iterator[tuple[str, int, Method, Part | Memory]]:
    """The name of each part that can be replaced, the number of its phase, its method, and the part."""
    leaves = list(method.leaves())
    for number, leaf in enumerate(leaves):
        prefix = f"{number}." if len(leaves) > 1 else ""
        seen: Counter[str] = Counter()
        for item in _probed(leaf):
            seen[label(item)] += 1
            yield prefix + label(item) + (f" {seen[label(item)]}" if seen[label(item)] > 1 else ""), number, leaf, item


@dataclass(frozen=True)
class _Way:
    """One way to do without a part."""

    by: str
    method: Method


def _ways(leaf: Method, item: Part | Memory, have: frozenset[str]) -> Iterator[_Way]:
    """The ways to do without a part, the plainest first."""
    neutral = None if isinstance(item, Memory) else _neutral(item)
    in_its_place = "nothing" if neutral is None else repr(neutral)
    for adapt in (False, True):
        changed, gone = _closed(leaf, item, have, adapt)
        if changed is not None:
            also = [type(other).__name__ for other in gone if other is not item]
            yield _Way(
                in_its_place + (f"; {', '.join(also)} {'adapted' if adapt else 'with it'}" if also else ""), changed
            )
    if isinstance(item, Memory):
        blank = _Blank(item)
        yield _Way("one that observes nothing", leaf.replace(memories=_exchange(leaf.memories, item, (blank,))))


class _Blank(Memory):
    """A memory that stays as it is at the start of a run."""

    memory: Memory

    @property
    def needs(self) -> tuple[Need, ...]:
        return self.memory.needs

    @property
    def provides(self) -> tuple[str, ...]:
        return self.memory.provides

    def initial(self) -> State:
        return self.memory.initial()

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return self.memory.recall(state, tasks)

    def observe(self, state: State, batch: Batch) -> State:
        return state

    def scalars(self, state: State) -> dict[str, float]:
        return self.memory.scalars(state)


def _probed(method: Method) -> Iterable[Part | Memory]:
    """What can be replaced: everything that acts on the training, and each only once."""
    yield from (part for part in method.parts() if not isinstance(part, Metric))
    yield from method.memories


def _usual_strategy(strategy: Strategy) -> Strategy:
    """Plain sampling of as many rollouts at the same temperature."""
    neutral = strategy.neutral
    if isinstance(neutral, Strategy):
        return neutral
    return Sample(n=strategy.n or Sample().n, draw=Draw(temperature=strategy.temperature))


def _neutral(part: Part, lost: Container[Need] = ()) -> Part | None:
    """What stands in a part's place and does not read what is `lost`; None: nothing."""
    if isinstance(part, Strategy):
        return _usual_strategy(part)
    usual = {"advantage": Normalize(), "updates": Updates()}.get(part.stage)
    options = [option for option in (part.neutral, usual) if option is not None and not _reads(option, lost)]
    return options[0] if options else None


def _reads(part: Part | Memory, lost: Container[Need]) -> bool:
    named = part.routed if isinstance(part, Term) else ()
    return any(need in lost for need in (*part.needs, *named))


def _adapted(part: Part | Memory, lost: Container[Need]) -> Part | Memory | None:
    """The part with its default settings where others make it read what is `lost`; None: no setting helps."""
    renamed = _unnamed(part, lost)
    if not _reads(renamed, lost):
        return renamed
    # Switches first: they ask for columns, while a number that does is also one of the formula.
    for setting, default in sorted(_defaults(part).items(), key=lambda item: not isinstance(item[1], bool)):
        try:
            changed = part.replace(**{setting: default})
        except PodiumError:  # the other settings do not allow it
            continue
        if not _reads(changed, lost):
            return changed
    return None


def _unnamed(value: Any, lost: Container[Need]) -> Any:
    """A value whose settings, at any depth, no longer name columns that are `lost`."""
    if isinstance(value, tuple):
        return tuple(_unnamed(x, lost) for x in value)
    if not isinstance(value, Value):
        return value
    defaults = _defaults(value)
    changes = {}
    for name, old in value.settings().items():
        named = isinstance(old, str) and (old in lost or f"token.{old}" in lost)
        new = defaults.get(name, old) if named else _unnamed(old, lost)
        if new != old:
            changes[name] = new
    return value.replace(**changes) if changes else value


def _defaults(value: Value) -> dict[str, Any]:
    """The settings that have a default other than the value's, and this default."""
    found = {f.name: f.default for f in dataclasses.fields(value) if f.default is not dataclasses.MISSING}
    return {name: default for name, default in found.items() if default != getattr(value, name)}


def _without(method: Method, item: Part | Memory, lost: Container[Need] = (), adapt: bool = False) -> Method | None:
    """The method with one part replaced, or adapted to what is lost; None where it is as plain as can be, or its only
    term."""
    if adapt and (adapted := _adapted(item, lost)) is not None:
        return _with(method, item, adapted)
    if isinstance(item, Memory):
        return _with(method, item, None)
    held = getattr(method, item.stage)
    marked = isinstance(item, Term) and any(name in lost for name in item.routed)
    neutral = _unmarked(item, held, lost) if marked else _neutral(item, lost)
    if neutral == item and not isinstance(item, Term):
        return None
    changed = _with(method, item, None if neutral == item else neutral)  # one of several terms is left out
    if item.stage == "objective" and not any(isinstance(x, Term) and x.trains == "policy" for x in changed.objective):
        return None
    return changed


def _with(method: Method, item: Part | Memory, other: Part | Memory | None) -> Method:
    """The method with another part, or none, in the place of one."""
    stage = item.stage if isinstance(item, Part) else "memories"
    if stage in LISTS or stage == "memories":
        return method.replace(**{stage: _exchange(getattr(method, stage), item, () if other is None else (other,))})
    return method.replace(**{stage: other})


def _exchange(held: Iterable[Any], item: object, others: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(x for part in held for x in (others if part is item else (part,)))


def _unmarked(term: Any, held: Iterable[Term], lost: Container[Need]) -> Term | None:
    """A term on marked elements where nobody marks them any more: on all of them, unless there is such a term or it
    trains another model. One whose weight nobody writes has none."""
    plain: Term = term.replace(weight=None) if term.weight in lost else term
    if plain.where not in lost:
        return None if _reads(plain, lost) else plain
    there = any(type(other) is type(plain) and other.where is None for other in held)
    return None if there or plain.trains != "policy" else plain.replace(where=None)


@dataclass(frozen=True)
class _Lost:
    """What a method had before it was changed and has no longer: columns, and signals of models that it trained."""

    before: Method
    now: Method
    columns: frozenset[str]  # of the world

    def __contains__(self, need: object) -> bool:
        if isinstance(need, Signal):
            passage = dict(need.settings).get("passage")
            if passage and f"{need.level}.{passage}.ids" in self:
                return True
            taught = _trained(self.before) - _trained(self.now)
            return need.of in taught or (need.name == "value" and bool(taught))
        if not isinstance(need, str) or self.before is self.now:
            return False
        level = need.partition(".")[0]
        if level in _own_levels(self.before) and level not in _own_levels(self.now):
            return True
        return met(need, known_columns(self.before, self.columns)) and not met(
            need, known_columns(self.now, self.columns)
        )


def _own_levels(method: Method) -> set[str]:
    """The levels that the method's strategy makes, such as the nodes of a tree."""
    return {name.partition(".")[0] for name in (method.rollout.provides if method.rollout else ())} - set(LEVELS)


def _trained(method: Method) -> set[str]:
    return {term.trains for term in method.objective}


def _closed(
    method: Method, item: Part | Memory, have: frozenset[str], adapt: bool
) -> tuple[Method | None, list[Part | Memory]]:
    """The method without a part and without all that read what only it has written, or with these adapted; and all
    that were replaced."""
    gone: list[Part | Memory] = []
    due: list[Part | Memory] = [item]
    changed: Method | None = method
    lost = _Lost(method, method, have)
    while due and changed is not None:
        current = due.pop(0)
        gone.append(current)
        changed = _without(changed, current, lost, adapt and current is not item)
        if changed is None:
            break
        lost = _Lost(method, changed, have)
        readers = [other for other in _everything(changed) if _reads(other, lost) and not isinstance(other, Metric)]
        due += [other for other in readers if not any(other is x for x in (*gone, *due))]
    if changed is not None:  # without metrics that report columns which nobody writes any more
        changed = changed.replace(metric=tuple(m for m in changed.metric if not _reads(m, lost)))
    return changed, gone


def _everything(method: Method) -> list[Part | Memory]:
    return [*method.parts(), *method.memories]


def _exchanged(method: Method, number: int, leaf: Method) -> Method:
    """The method with another one in the place of its `number`-th leaf."""
    count = iter(range(len(list(method.leaves()))))
    return method.each(lambda old: leaf if next(count) == number else old)


def weight_vector(tensors: Iterable[Tensor]) -> Tensor:
    """All weights as one vector."""
    return torch.cat([t.detach().double().reshape(-1).cpu() for t in tensors])
