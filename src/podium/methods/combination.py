"""Combining methods: a three-way merge of what each of them changes.

Both methods are read as sets of changes to a common base, plain GRPO without its KL penalty, as two versions of a text
are read as changes of their common ancestor. At each place (a stage that holds one part, the parts of one class in a
stage that holds several, a memory, a role):

- what only one of the methods changes is taken from it; parts that only the second has come after those of the first;
- where both change the same part, the changes are merged setting by setting: if both set a number or an aggregation,
  the first method's is kept and reported as a choice; if both set a formula (a word, a part), they conflict;
- a part that one method replaces and the other changes is a conflict, and so are two different parts in a stage that
  holds one;
- metrics are collected.

How much is sampled and how often a batch is used (`SIZES`) belong to a run: the first method's are kept without a
report. The result is checked like any method: a need that is no longer met is a conflict, a new warning is reported.
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
Place = tuple[str, str]  # a stage, "memories" or "roles"; and a class of parts, the name of a role, or ""


@dataclass(frozen=True)
class Combination:
    """Two methods merged into one, or the reasons why they cannot be."""

    method: Method | None  # None: they conflict
    conflicts: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()  # numbers and aggregations that both set: the first method's are kept
    warnings: tuple[str, ...] = ()  # of the check, which neither method has on its own

    @property
    def verdict(self) -> str:
        """`yes`, `care` (there are choices or warnings to look at) or `no`."""
        return "no" if self.method is None else "care" if self.choices or self.warnings else "yes"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Everything there is to report: conflicts, choices and warnings."""
        return (*self.conflicts, *self.choices, *self.warnings)

    def data(self) -> dict[str, Any]:
        """All but the method, as plain data."""
        reasons = {name: list(getattr(self, name)) for name in ("conflicts", "choices", "warnings")}
        return {"combines": self.verdict, **reasons}


def combine_all(methods: Sequence[Method], settings: Mapping[str, Any] | None = None) -> Method:
    """The first method with what each of the others changes; an error where they conflict."""
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
        if len(list(first.leaves())) > 1:
            return Combination(None, ("Both are several methods in turn: write their phases out in a recipe.",))
        return Combination(None, (f"{second.name} is several methods in turn: put it first.",))
    conflicts: list[str] = []
    choices: list[str] = []
    try:
        both = first.each(lambda leaf: _merge(leaf, second, conflicts, choices))
    except PodiumError as problem:
        conflicts.append(str(problem))
    if conflicts:
        return Combination(None, tuple(dict.fromkeys(conflicts)))
    world = {*_columns_from_world(first), *_columns_from_world(second)}
    findings = both.check(world)
    if findings:
        expected = {finding.message for method in (first, second) for finding in method.check(world)}
        findings = [finding for finding in findings if finding.message not in expected]
    errors = tuple(finding.message for finding in findings if finding.kind == "error")
    if errors:
        return Combination(None, errors)
    return Combination(both, (), tuple(dict.fromkeys(choices)), tuple(finding.message for finding in findings))


def changed_stages(method: Method) -> tuple[str, ...]:
    """The stages, in the order of the loop, at which a method differs from the base in more than sizes."""
    base = _parts_by_place(_base())
    changed = set()
    for leaf in method.leaves():
        places = _parts_by_place(leaf)
        for place in {*base, *places}:
            if not _same(place[0], places.get(place, ()), base.get(place, ())):
                changed.add(place[0])
    return tuple(stage for stage in STAGES if stage in changed)


# -- the merge ---------------------------------------------------------------------------------------------------------


@cache
def _base() -> Method:
    return get("grpo", kl=0.0)


def _merge(first: Method, second: Method, conflicts: list[str], choices: list[str]) -> Method:
    """`first` with the changes of `second`; conflicts and choices are appended to the lists."""
    base, ours, theirs = (_parts_by_place(method) for method in (_base(), first, second))
    merged = {}
    for place in dict.fromkeys((*ours, *theirs, *base)):
        old, mine, other = (parts.get(place, ()) for parts in (base, ours, theirs))
        merged[place] = _merge_place(place, old, mine, other, (first.name, second.name), conflicts, choices)
    stages: dict[str, Any] = {}
    for stage in (*STAGES, "memories", "roles"):
        values = tuple(value for place, parts in merged.items() if place[0] == stage for value in parts)
        stages[stage] = values if stage not in STAGES or stage in LISTS else values[0] if values else None
    return first.replace(
        **stages if not conflicts else {},
        name=f"{first.name}+{second.name}",
        summary=f"{first.summary} With {second.name}: {second.summary}".strip(),
        citation="; ".join(dict.fromkeys(c for c in (first.citation, second.citation) if c)),
    )


def _parts_by_place(method: Method) -> dict[Place, tuple[Value, ...]]:
    """The method's parts, memories and roles, by place and in the order of the loop."""
    parts: dict[Place, tuple[Value, ...]] = {}
    for stage in (*STAGES, "memories", "roles"):
        content = getattr(method, stage)
        for value in content if isinstance(content, tuple) else [] if content is None else [content]:
            single = stage in STAGES and stage not in LISTS
            name = "" if single else value.name if isinstance(value, Role) else type(value).__name__
            name = repr(value) if stage == "metric" else name  # so that no two metrics are the same place
            parts[stage, name] = (*parts.get((stage, name), ()), value)
    return parts


def _merge_place(
    place: Place,
    base: tuple[Value, ...],
    ours: tuple[Value, ...],
    theirs: tuple[Value, ...],
    names: tuple[str, str],
    conflicts: list[str],
    choices: list[str],
) -> tuple[Value, ...]:
    """The parts at one place, from those of the base, of the first method and of the second."""
    stage, name = place
    path = f"{stage}.{name}" if name else stage
    if _same(stage, theirs, base) or _same(stage, theirs, ours):
        return ours
    if _same(stage, ours, base):
        return tuple(_with_sizes_of(stage, part, ours) for part in theirs)
    if len(ours) == len(theirs) == 1 and type(ours[0]) is type(theirs[0]):
        before = base[0] if base and type(base[0]) is type(ours[0]) else None
        return (_merge_settings(path, before, ours[0], theirs[0], names, conflicts, choices),)
    classes = [", ".join(type(value).__name__ for value in parts) or "none" for parts in (ours, theirs)]
    what = f"{name} at the stage {stage!r}" if name else f"the stage {stage!r}"
    conflicts.append(f"Both decide {what}: {names[0]} has {classes[0]}, {names[1]} has {classes[1]}.")
    return ours


def _merge_settings(
    path: str, base: Any, ours: Any, theirs: Any, names: tuple[str, str], conflicts: list[str], choices: list[str]
) -> Any:
    """`ours` with the fields that only `theirs` changes."""
    changes = {}
    for field in ours.field_names():
        x, y = getattr(ours, field), getattr(theirs, field)
        before = getattr(base, field) if base is not None else _default(ours, field)
        where = f"{path}.{field}"
        if y in (before, x) or where in SIZES:
            continue
        if x == before:
            changes[field] = y
        elif _interchangeable(x, y):
            choices.append(f"Both set {where}: {names[0]}'s {_shown(x)} is kept, {names[1]} has {_shown(y)}.")
        elif isinstance(x, Value) and type(x) is type(y) and not isinstance(x, Schedule):
            inner = before if type(before) is type(x) else None
            changes[field] = _merge_settings(where, inner, x, y, names, conflicts, choices)
        else:
            conflicts.append(f"Both set {where}: {names[0]} to {_shown(x)}, {names[1]} to {_shown(y)}.")
    return ours.replace(**changes)


def _interchangeable(x: Any, y: Any) -> bool:
    """Whether a method works with either value: two numbers, or two aggregations, which are outside the formula."""
    numbers = all(isinstance(v, (int, float, Schedule)) and not isinstance(v, bool) for v in (x, y))
    return numbers or (isinstance(x, Aggregate) and isinstance(y, Aggregate))


def _default(value: Value, field: str) -> Any:
    """A field's default; dataclasses' `MISSING`, which no value equals, where it has none."""
    return type(value).__dataclass_fields__[field].default


def _shown(value: Any) -> str:
    return f"{str(value)!r}" if isinstance(value, str) else str(value)


def _same(stage: str, one: tuple[Value, ...], other: tuple[Value, ...]) -> bool:
    """Whether the parts are equal except for their `SIZES`."""
    return len(one) == len(other) and all(
        _with_sizes_of(stage, x, other[i : i + 1]) == other[i] for i, x in enumerate(one)
    )


def _with_sizes_of(stage: str, value: Value, like: tuple[Value, ...]) -> Value:
    """The value with the `SIZES` of the only part in `like`, if that is of the same class."""
    if len(like) != 1 or type(like[0]) is not type(value):
        return value
    names = [size.partition(".")[2] for size in SIZES if size.partition(".")[0] == stage]
    fields = [name for name in names if name in value.field_names()]
    return value.replace(**{name: getattr(like[0], name) for name in fields}) if fields else value


# -- the check ---------------------------------------------------------------------------------------------------------


def _columns_from_world(method: Method) -> Iterable[str]:
    """The columns that the world must provide: those that are read before any part of the method writes them."""
    written = {column for memory in method.memories for column in memory.provides}
    readers: list[Part | Memory] = [*method.parts(), *method.memories]
    for part in readers:
        probes = part.probes if isinstance(part, Part) else ()
        written |= {column for probe in probes for column in probe.provides}
        routed = part.routed if isinstance(part, Term) else ()
        for need in (*part.needs, *routed):
            if isinstance(need, str) and not met(need, written):
                yield need
            elif isinstance(need, Signal) and dict(need.settings).get("passage"):
                yield f"{need.level}.{dict(need.settings)['passage']}.ids"
        written |= set(part.provides)
    yield from (role.context for role in method.roles if role.context is not None)
