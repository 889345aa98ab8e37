"""Combining methods: what each of them changes, joined.

Two methods are read as two sets of changes of a common base, plain GRPO without its penalty, as two versions of a text
are read as changes of an earlier one. At each place (a stage of one part, the parts of one class in a stage of several,
a memory, a role):

- what only one of the methods changes is taken from it; parts that only the second has come after those of the first;
- where both have changed the same part, the changes are joined setting by setting: of a number or an aggregation that
  both give, the first's is kept and named as a choice; where they give two formulas (words, parts), they conflict;
- a part that one replaces and the other changes is a conflict, and so are two different parts in a stage of one;
- metrics stand beside each other.

How much is sampled and how often a batch is used (`SIZES`) belong to a run: the first's are kept without a word. What
comes out is checked like any method: a need that is no longer met is a conflict, a new warning a remark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from podium.core.errors import PodiumError
from podium.core.memory import Memory
from podium.core.part import Part
from podium.core.schedule import Schedule
from podium.core.signal import Signal
from podium.core.term import Aggregate, Term
from podium.core.value import Value
from podium.method import LISTS, STAGES, Method, Role
from podium.method.check import met
from podium.methods.catalogue import get

__all__ = ["VERDICTS", "Combination", "changed_stages", "combine", "combine_all"]

SIZES = ("rollout.n", "rollout.trained", "rollout.most", "updates.epochs", "updates.mini_batches")
VERDICTS = ("yes", "care", "no")
Place = tuple[str, str]  # a stage, memories or roles; and the class of its parts, the role's name, or nothing


@dataclass(frozen=True)
class Combination:
    """Two methods as one, or why not."""

    method: Method | None  # None: they conflict
    conflicts: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()  # numbers that both set: the first's are kept
    warnings: tuple[str, ...] = ()  # of the check, that neither method had alone

    @property
    def verdict(self) -> str:
        """yes, care (there is something to decide or to look at) or no."""
        return "no" if self.method is None else "care" if self.choices or self.warnings else "yes"

    @property
    def reasons(self) -> tuple[str, ...]:
        return (*self.conflicts, *self.choices, *self.warnings)

    def data(self) -> dict[str, Any]:
        """All but the method, as plain data."""
        named = {name: list(getattr(self, name)) for name in ("conflicts", "choices", "warnings")}
        return {"combines": self.verdict, **named}


def combine_all(methods: Sequence[Method], settings: Mapping[str, Any] | None = None) -> Method:
    """Several methods as one, the first with what each of the others changes."""
    if settings:
        names = ", ".join(settings)
        raise PodiumError(f"{names}: several methods have no recipe in common; name a part's setting instead.")
    first, *others = methods
    for other in others:
        both = combine(first, other)
        if both.method is None:
            raise PodiumError(f"{first.name} and {other.name} do not combine. " + " ".join(both.conflicts))
        first = both.method
    return first


def combine(first: Method, second: Method) -> Combination:
    """`first` with what `second` changes."""
    if len(list(second.leaves())) > 1:
        return Combination(None, (f"{second.name} is several methods in turn: put it first.",))
    conflicts: list[str] = []
    choices: list[str] = []
    try:
        both = first.each(lambda leaf: _both(leaf, second, conflicts, choices))
    except PodiumError as problem:
        conflicts.append(str(problem))
    if conflicts:
        return Combination(None, tuple(dict.fromkeys(conflicts)))
    known = {*_read(first), *_read(second)}
    found = both.check(known)
    if found:
        alone = {f.message for method in (first, second) for f in method.check(known)}
        found = [f for f in found if f.message not in alone]
    if any(f.kind == "error" for f in found):
        return Combination(None, tuple(f.message for f in found if f.kind == "error"))
    return Combination(both, (), tuple(dict.fromkeys(choices)), tuple(f.message for f in found))


def changed_stages(method: Method) -> tuple[str, ...]:
    """The stages, in the order of the loop, at which a method differs from the base in more than sizes."""
    base = _places(_base())
    changed = set()
    for leaf in method.leaves():
        places = _places(leaf)
        for place in {*base, *places}:
            if not _same(place[0], places.get(place, ()), base.get(place, ())):
                changed.add(place[0])
    return tuple(stage for stage in STAGES if stage in changed)


# -- the merge ---------------------------------------------------------------------------------------------------------


@cache
def _base() -> Method:
    return get("grpo", kl=0.0)


def _both(first: Method, second: Method, conflicts: list[str], choices: list[str]) -> Method:
    base, a, b = (_places(method) for method in (_base(), first, second))
    merged = {}
    for place in dict.fromkeys((*a, *b, *base)):
        olds, mine, theirs = (x.get(place, ()) for x in (base, a, b))
        merged[place] = _merged(place, olds, mine, theirs, (first.name, second.name), conflicts, choices)
    stages: dict[str, Any] = {}
    for stage in (*STAGES, "memories", "roles"):
        values = tuple(value for place, held in merged.items() if place[0] == stage for value in held)
        stages[stage] = values if stage not in STAGES or stage in LISTS else values[0] if values else None
    return first.replace(
        **stages if not conflicts else {},
        name=f"{first.name}+{second.name}",
        summary=f"{first.summary} With {second.name}: {second.summary}".strip(),
        citation="; ".join(dict.fromkeys(c for c in (first.citation, second.citation) if c)),
    )


def _places(method: Method) -> dict[Place, tuple[Value, ...]]:
    """What the method holds, by place, in the order of the loop."""
    found: dict[Place, tuple[Value, ...]] = {}
    for stage in (*STAGES, "memories", "roles"):
        held = getattr(method, stage)
        for value in held if isinstance(held, tuple) else [] if held is None else [held]:
            single = stage in STAGES and stage not in LISTS
            name = "" if single else value.name if isinstance(value, Role) else type(value).__name__
            name = repr(value) if stage == "metric" else name
            found[stage, name] = (*found.get((stage, name), ()), value)
    return found


def _merged(
    place: Place,
    old: tuple[Value, ...],
    mine: tuple[Value, ...],
    theirs: tuple[Value, ...],
    names: tuple[str, str],
    conflicts: list[str],
    choices: list[str],
) -> tuple[Value, ...]:
    stage = place[0]
    path = f"{stage}.{place[1]}" if place[1] else stage
    if _same(stage, theirs, old) or _same(stage, theirs, mine):
        return mine
    if _same(stage, mine, old):
        return tuple(_sized(stage, new, mine) for new in theirs)
    if len(mine) == len(theirs) == 1 and type(mine[0]) is type(theirs[0]):
        before = old[0] if old and type(old[0]) is type(mine[0]) else None
        return (_settings(path, before, mine[0], theirs[0], names, conflicts, choices),)
    said = [", ".join(type(value).__name__ for value in held) or "none" for held in (mine, theirs)]
    what = f"{place[1]} at the stage {stage!r}" if place[1] else f"the stage {stage!r}"
    conflicts.append(f"Both decide {what}: {names[0]} has {said[0]}, {names[1]} has {said[1]}.")
    return mine


def _settings(
    path: str, old: Any, mine: Any, theirs: Any, names: tuple[str, str], conflicts: list[str], choices: list[str]
) -> Any:
    """One value in which the changes of two are joined field by field."""
    changes = {}
    for field in mine.field_names():
        x, y = getattr(mine, field), getattr(theirs, field)
        before = getattr(old, field) if old is not None else _default(mine, field)
        where = f"{path}.{field}"
        if y in (before, x) or where in SIZES:
            continue
        if x == before:
            changes[field] = y
        elif _open(x, y):
            choices.append(f"Both set {where}: {names[0]}'s {_shown(x)} is kept, {names[1]} has {_shown(y)}.")
        elif isinstance(x, Value) and type(x) is type(y) and not isinstance(x, Schedule):
            inner = before if type(before) is type(x) else None
            changes[field] = _settings(where, inner, x, y, names, conflicts, choices)
        else:
            conflicts.append(f"Both set {where}: {names[0]} to {_shown(x)}, {names[1]} to {_shown(y)}.")
    return mine.replace(**changes)


def _open(x: Any, y: Any) -> bool:
    """Whether a method works with either: numbers, and aggregations, which stand outside of the loss."""
    free = all(isinstance(v, (int, float, Schedule)) and not isinstance(v, bool) for v in (x, y))
    return free or (isinstance(x, Aggregate) and isinstance(y, Aggregate))


def _default(value: Value, field: str) -> Any:
    """A field's default; the value's own where it has none, so that it counts as unchanged."""
    return type(value).__dataclass_fields__[field].default


def _shown(value: Any) -> str:
    return f"{str(value)!r}" if isinstance(value, str) else str(value)


def _same(stage: str, one: tuple[Value, ...], other: tuple[Value, ...]) -> bool:
    """Whether parts are equal but for their sizes."""
    return len(one) == len(other) and all(_sized(stage, x, other[i : i + 1]) == other[i] for i, x in enumerate(one))


def _sized(stage: str, value: Value, like: tuple[Value, ...]) -> Value:
    """The value with the sizes of another of its class."""
    if len(like) != 1 or type(like[0]) is not type(value):
        return value
    names = [size.partition(".")[2] for size in SIZES if size.partition(".")[0] == stage]
    fields = [name for name in names if name in value.field_names()]
    return value.replace(**{name: getattr(like[0], name) for name in fields}) if fields else value


# -- the check ---------------------------------------------------------------------------------------------------------


def _read(method: Method) -> Iterable[str]:
    """The columns that the method asks of a world: what it reads and none of its own parts has written."""
    written = {column for memory in method.memories for column in memory.provides}
    readers: list[Part | Memory] = [*method.parts(), *method.memories]
    for part in readers:
        probes = part.probes if isinstance(part, Part) else ()
        written |= {column for probe in probes for column in probe.provides}
        where = part.where if isinstance(part, Term) else None
        for need in (*part.needs, *([where] if where else [])):
            if isinstance(need, str) and not met(need, written):
                yield need
            elif isinstance(need, Signal) and dict(need.settings).get("passage"):
                yield f"{need.level}.{dict(need.settings)['passage']}.ids"
        written |= set(part.provides)
    yield from (role.context for role in method.roles if role.context is not None)
