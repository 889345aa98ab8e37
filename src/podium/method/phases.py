"""Methods in phases: one after another, each until a condition holds, or several that alternate.

    Phases(imitate.until(50), grpo.until(Plateau("eval.pass@1"), 400), dapo)
    Alternate(a, b, every=5)

Both are methods. `at(clock)` is the method that is active; how far the phases have come is the clock's `progress`, a
plain state that the loop carries from iteration to iteration and saves in every checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from podium.core import serial
from podium.core.errors import PodiumError, within
from podium.core.facts import RunFacts
from podium.core.memory import Memory, State
from podium.core.part import Part
from podium.core.shares import ShareOfRun
from podium.core.value import Clock, Value
from podium.core.yaml_text import dump
from podium.method.check import Finding
from podium.method.method import Method, Role
from podium.method.until import Iterations, Until

__all__ = ["Alternate", "Phase", "Phases"]


class Phase(Value):
    """A method and when it ends: as soon as one of the conditions holds; without conditions, never."""

    method: Method
    until: tuple[Until, ...] = ()
    fresh: bool = False  # begins with new optimisers: no moments, and warm-up and schedule over what is left of the run

    def __post_init__(self) -> None:
        if not isinstance(self.method, Method):
            raise PodiumError(f"A phase is made of a method, not of {self.method!r}.")
        ends = self.until if isinstance(self.until, tuple) else (self.until,)
        conditions = tuple(Iterations(u) if isinstance(u, (int, ShareOfRun)) else u for u in ends)
        for end in conditions:
            if not isinstance(end, Until):
                raise PodiumError(f"until({end!r}): give a number of iterations, Reached(...) or Plateau(...).")
        object.__setattr__(self, "until", conditions)

    def __repr__(self) -> str:
        shown = [repr(u.count if isinstance(u, Iterations) else u) for u in self.until]
        if self.fresh:
            ends = f", ({', '.join(shown)},)" if shown else ""
            return f"Phase({self.method!r}{ends}, fresh=True)"
        return f"{self.method!r}.until({', '.join(shown)})" if shown else repr(self.method)


class _InTurn(Method):
    """What Phases and Alternate share: they hold methods and have no parts of their own."""

    joined: ClassVar[str] = ", "  # the separator between the methods' names

    def _take(self, **fields: Any) -> None:
        """Set the fields, and the union of the methods' roles and memories."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        methods = self.children()
        if not fields["name"]:
            object.__setattr__(self, "name", self.joined.join(m.name for m in methods))
        for kind in ("roles", "memories"):
            held: dict[str, Any] = {}
            for item in (item for m in methods for item in getattr(m, kind)):
                key = item.name if isinstance(item, Role) else type(item).__name__
                if held.setdefault(key, item) != item:
                    raise PodiumError(
                        f"{self.name} has two {kind} {key} with different settings, {held[key]!r} and {item!r}: "
                        "they are one over the whole run, so give them the same."
                    )
            object.__setattr__(self, kind, tuple(held.values()))
        object.__setattr__(self, "protocol", self.main().protocol)

    def main(self) -> Method:
        return self.children()[-1].main()

    def _label(self) -> str:
        """What a repr adds to the methods: name, summary and citation where they differ from the default."""
        default = {"name": self.joined.join(m.name for m in self.children()), "summary": "", "citation": ""}
        changed = {name: getattr(self, name) for name, value in default.items() if getattr(self, name) != value}
        return "".join(f", {name}={value!r}" for name, value in changed.items())

    def children(self) -> tuple[Method, ...]:
        raise NotImplementedError

    def rebuilt(self, children: Sequence[Method]) -> Method:
        """The same with other methods inside."""
        raise NotImplementedError

    def leaves(self) -> Iterator[Method]:
        for child in self.children():
            yield from child.leaves()

    def each(self, change: Callable[[Method], Method]) -> Method:
        return self.rebuilt([child.each(change) for child in self.children()])

    def parts(self) -> Iterator[Part]:
        for method in self.leaves():
            yield from method.parts()

    @classmethod
    def field_names(cls) -> list[str]:
        """Stages belong to the methods inside."""
        return ["name", "summary", "citation", *cls.__annotations__]

    def replace(self, **changes: Any) -> Any:
        return type(self)(**{**self.settings(), **changes})

    # -- changes are made to every method inside ---------------------------------------------------------------------

    def with_(self, **stages: Any) -> Method:
        return self.each(lambda m: m.with_(**stages))

    def __or__(self, other: Part | Memory | Role) -> Method:
        return self.each(lambda m: m | other)

    def insert(self, part: Part, *, before: type[Part]) -> Method:
        return self.each(lambda m: m.insert(part, before=before))

    def set(self, path: str, value: Any) -> Method:
        """`advantage.scale` sets it in every method that has it, `1.advantage.scale` in the second one only."""
        head, _, rest = path.partition(".")
        children = list(self.children())
        if not head.isdigit():
            return self.rebuilt(_set(children, path, value))
        number = int(head)
        if number >= len(children):
            raise PodiumError(f"{path!r}: {self.name!r} has the methods 0 to {len(children) - 1}.")
        children[number] = children[number].set(rest, value)
        return self.rebuilt(children)

    # -- reading -----------------------------------------------------------------------------------------------------

    def check(self, columns: Any = (), *, signals: Any = None, facts: RunFacts | None = None) -> list[Finding]:
        """What is wrong with any of the methods, each by its name."""
        columns = tuple(columns)
        return [
            Finding(finding.kind, f"{child.name}: {finding.message}" if child.name else finding.message)
            for child in self.children()
            for finding in child.check(columns, signals=signals, facts=facts)
        ]

    def describe(self) -> str:
        lines = [f"{self.name}: {self.summary}" if self.summary else self.name]
        for number, child in enumerate(self.children()):
            lines.append(f"  {number}. {self._turn(number)}")
            lines += [f"    {line}" for line in child.describe().splitlines()]
        return "\n".join(lines)

    def _turn(self, number: int) -> str:
        """When one of the methods is active, in words."""
        raise NotImplementedError

    def to_yaml(self) -> str:
        return dump({"format": serial.FORMAT, **serial.encode(self)})


class Phases(_InTurn):
    """Methods one after another, each until one of its conditions holds; the clock of a phase starts at 0."""

    joined = ", then "
    phases: tuple[Phase, ...] = ()

    def __init__(
        self,
        *several: Phase | Method,
        phases: tuple[Phase, ...] = (),
        name: str = "",
        summary: str = "",
        citation: str = "",
    ) -> None:
        held = tuple(p if isinstance(p, Phase) else Phase(p) for p in (*several, *phases))
        if not held:
            raise PodiumError("Phases needs at least one method.")
        for phase in held[:-1]:
            if not phase.until:
                raise PodiumError(f"The phase {phase.method.name!r} has no end: write method.until(...).")
        self._take(phases=held, name=name, summary=summary, citation=citation)

    def __repr__(self) -> str:
        return f"Phases({', '.join(map(repr, self.phases))}{self._label()})"

    def children(self) -> tuple[Method, ...]:
        return tuple(p.method for p in self.phases)

    def rebuilt(self, children: Sequence[Method]) -> Method:
        return self.replace(phases=tuple(p.replace(method=m) for m, p in zip(children, self.phases, strict=True)))

    def _turn(self, number: int) -> str:
        ends = self.phases[number].until
        shown = [f"{u.count} iterations" if isinstance(u, Iterations) else repr(u) for u in ends]
        fresh = ", with a fresh optimiser" if self.phases[number].fresh else ""
        return (f"until {' or '.join(shown)}" if shown else "to the end") + fresh

    def start(self) -> State:
        return self._enter(0, 0)

    def _enter(self, number: int, iteration: int) -> State:
        phase = self.phases[number]
        ends = [u.start() for u in phase.until]
        return {"phase": number, "began": iteration, "ends": ends, "inside": phase.method.start()}

    def begins_fresh(self, progress: State) -> bool:
        return self.phases[progress["phase"]].fresh

    def _inner(self, clock: Clock) -> tuple[Phase, State, Clock]:
        state: State = dict(clock.progress) or self.start()
        clock = Clock(clock.iteration - state["began"], clock.values, state["inside"])
        return self.phases[state["phase"]], state, clock

    def at(self, clock: Clock) -> Any:
        phase, _, inner = self._inner(clock)
        return phase.method.at(inner)

    def advance(self, clock: Clock, metrics: Mapping[str, Any]) -> State:
        phase, state, inner = self._inner(clock)
        values = {**clock.values, **metrics}
        watched = [u.watch(s, values) for u, s in zip(phase.until, state["ends"], strict=True)]
        if any(over for _, over in watched) and state["phase"] + 1 < len(self.phases):
            return self._enter(state["phase"] + 1, clock.iteration)
        return {**state, "ends": [s for s, _ in watched], "inside": phase.method.advance(inner, metrics)}


class Alternate(_InTurn):
    """Methods that alternate, `every` iterations each."""

    joined = " and "
    methods: tuple[Method, ...] = ()
    every: int = 1  # iterations

    def __init__(
        self,
        *several: Method,
        methods: tuple[Method, ...] = (),
        every: int = 1,
        name: str = "",
        summary: str = "",
        citation: str = "",
    ) -> None:
        held = (*several, *methods)
        if len(held) < 2 or not all(isinstance(m, Method) for m in held):
            raise PodiumError("Alternate needs at least two methods.")
        self._take(methods=held, every=every, name=name, summary=summary, citation=citation)
        within(self, "every", 1)

    def __repr__(self) -> str:
        every = "" if self.every == 1 else f", every={self.every}"
        return f"Alternate({', '.join(map(repr, self.methods))}{every}{self._label()})"

    def children(self) -> tuple[Method, ...]:
        return self.methods

    def main(self) -> Method:
        return self.methods[0].main()

    def rebuilt(self, children: Sequence[Method]) -> Method:
        return self.replace(methods=tuple(children))

    def _turn(self, number: int) -> str:
        return f"{self.every} of every {self.every * len(self.methods)} iterations"

    def start(self) -> State:
        return {"phase": 0, "done": 0, "inside": [m.start() for m in self.methods]}

    def _inner(self, clock: Clock) -> tuple[int, State, Clock]:
        state: State = dict(clock.progress) or self.start()
        return state["phase"], state, Clock(clock.iteration, clock.values, state["inside"][state["phase"]])

    def at(self, clock: Clock) -> Any:
        number, _, inner = self._inner(clock)
        return self.methods[number].at(inner)

    def advance(self, clock: Clock, metrics: Mapping[str, Any]) -> State:
        number, state, inner = self._inner(clock)
        inside = list(state["inside"])
        inside[number] = self.methods[number].advance(inner, metrics)
        done = state["done"] + 1
        return {"phase": done // self.every % len(self.methods), "done": done, "inside": inside}


def _set(methods: Sequence[Method], path: str, value: Any) -> list[Method]:
    """The methods, with the setting changed in those that have it."""
    new, refusals = [], []
    for method in methods:
        try:
            new.append(method.set(path, value))
        except PodiumError as refusal:
            new.append(method)
            refusals.append(refusal)
    if len(refusals) == len(methods):
        raise refusals[0]
    return new
