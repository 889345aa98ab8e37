"""Running the battery on a part, and what comes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import podium.core.part
from podium.core.errors import PodiumError
from podium.core.memory import Memory
from podium.core.part import Part, Select, Shape
from podium.core.serial import class_modules, load_class
from podium.core.term import Term
from podium.core.updates import Updates
from podium.core.value import Clock
from podium.testing import contract, finite, mask, order, plan, slope, values
from podium.testing.bench import Bench
from podium.testing.examples import examples_of
from podium.testing.settings import Exploration, explore, failure_of
from podium.testing.subject import COLUMN_PARTS
from podium.testing.synthetic import SceneRules, names

__all__ = ["GROUPS", "BatteryFailed", "Report", "check", "examine", "registered_parts"]

Claim = Callable[[Any, Bench], str | None]
ANY = (object,)
RUNS = (*COLUMN_PARTS, Term, Memory, Select, Updates)  # what can be called on a batch

# (group, claim, the kinds of part that it is about)
CLAIMS: tuple[tuple[str, Claim, tuple[type, ...]], ...] = (
    ("order", order.rows_may_stand_in_any_order, RUNS),
    ("order", order.groups_may_have_any_numbers, RUNS),
    ("order", order.padding_changes_nothing, RUNS),
    ("order", order.micro_batches_do_not_show, (Term, Shape)),
    ("order", plan.updates_see_every_trained_rollout, (Updates,)),
    ("mask", mask.untrained_tokens_get_no_gradient, (Term,)),
    ("mask", mask.dropped_rollouts_leave_no_trace, (Term,)),
    ("mask", mask.recorded_rollouts_leave_no_trace, (*COLUMN_PARTS, Term, Memory)),
    ("mask", mask.held_values_carry_no_gradient, (*COLUMN_PARTS, Term)),
    ("finite", finite.degenerate_input_gives_finite_numbers, RUNS),
    ("finite", finite.extreme_input_gives_the_numbers_of_float64, RUNS),
    ("gradient", slope.gradient_matches_finite_differences, (Term,)),
    ("contract", contract.needs_are_what_is_read, RUNS),
    ("contract", contract.provides_are_what_is_returned, (*COLUMN_PARTS, Memory)),
    ("contract", contract.couples_what_it_says, (Term,)),
    ("value", values.prints_as_code, ANY),
    ("value", values.survives_yaml, ANY),
    ("value", values.equal_parts_are_equal, ANY),
    ("value", values.state_survives_saving, (Memory,)),
)
GROUPS = ("order", "mask", "finite", "gradient", "settings", "contract", "value")


class BatteryFailed(AssertionError):
    """A part that does not keep its promises; the message says which."""


@dataclass
class Report:
    """What the battery found out about a part."""

    name: str
    failures: list[str] = field(default_factory=list)
    passed: dict[str, bool] = field(default_factory=dict)  # by group; those that say nothing of such a part are absent
    settings: int = 0  # how many were tried
    seconds: float = 0.0  # of one core

    @property
    def ok(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        marks = " ".join(_mark(group, self.passed.get(group)) for group in GROUPS)
        line = f"{self.name:<22} {marks}  {self.settings:>3} settings {self.seconds:5.1f} s"
        return "\n".join([line, *(f"  {failure}" for failure in self.failures)])


def registered_parts() -> list[type]:
    """All parts and memories of Podium but the bases that they are made from."""
    bases = (*vars(podium.core.part).values(), Memory, Term)
    classes = map(load_class, class_modules())
    parts = [c for c in classes if issubclass(c, (Part, Memory)) and c not in bases]
    # What has not said its formula yet is a base, too.
    formulas = ((Term, "loss"), (Select, "__call__"), (Memory, "observe"))
    return [c for c in parts if not any(getattr(c, f) is getattr(b, f) for b, f in formulas if issubclass(c, b))]


def _mark(group: str, passed: bool | None) -> str:
    return "·" * len(group) if passed is None else group if passed else group.upper() + "!"


def check(
    part: Any,
    *,
    examples: Sequence[Any] = (),
    alternatives: Mapping[str, Sequence[Any]] | None = None,
    columns: SceneRules | None = None,
) -> Report:
    """Put a part (or its class) through the battery; raises `BatteryFailed` with the reasons.

    `examples`: further settings of the part to start from. `alternatives`: values to try for a field. `columns`: how
    to draw a column that standard normal numbers do not suit: `{"rollout.style": lambda draw, name, n: [...]}`.
    """
    report = examine(part, examples=examples, alternatives=alternatives, columns=columns)
    if not report.ok:
        raise BatteryFailed("\n".join(report.failures))
    return report


def examine(
    part: Any,
    *,
    examples: Sequence[Any] = (),
    alternatives: Mapping[str, Sequence[Any]] | None = None,
    columns: SceneRules | None = None,
) -> Report:
    """Like `check`, but returns the failures instead of raising."""
    start = time.process_time()
    cls = part if isinstance(part, type) else type(part)
    report = Report(cls.__name__)
    try:
        bases: list[Any] = []
        for base in (*([] if isinstance(part, type) else [part]), *examples, *examples_of(cls)):
            base = base.at(Clock())
            if base not in bases:
                bases.append(base)
        if not bases:
            raise PodiumError("give the battery an instance, or the class a classmethod `examples()` that returns some")
        _run(report, bases, Bench(columns), alternatives or {})
    except PodiumError as error:
        report.failures.append(f"{cls.__name__}: {error}")
    report.seconds = time.process_time() - start
    return report


def _run(report: Report, bases: list[Any], bench: Bench, alternatives: Mapping[str, Sequence[Any]]) -> None:
    settings = bases
    if isinstance(bases[0], RUNS):
        for part in bases:
            group, reason = _does_not_run(part, bench)
            if reason:
                report.passed[group] = False
                report.failures.append(f"{part!r}: {reason}")
                return
        exploration = explore(bases, bench, alternatives)
        settings = [*exploration.settings]
        _judge_settings(report, exploration)
    report.settings = len(settings)
    for group, claim, kinds in CLAIMS:
        if not isinstance(bases[0], kinds):
            continue
        failed = _first(claim, settings, bench)
        report.passed[group] = report.passed.get(group, True) and failed is None
        if failed:
            report.failures.append(failed)


def _does_not_run(part: Any, bench: Bench) -> tuple[str, str | None]:
    """Why nothing else can be said about a part, and the group that this belongs to."""
    try:
        results = [bench.attempt(part, place) for place in bench.places()]
    except Exception as error:
        drawn = ", ".join(sorted(names(part)))
        return (
            "finite",
            f"{failure_of(error)} on an ordinary batch ({drawn} were drawn by name: see `columns` of check)",
        )
    if not all(isinstance(result, PodiumError) for result in results):
        return "", None
    undeclared = contract.needs_are_what_is_read(part, bench)
    return "contract" if undeclared else "finite", undeclared or f"refuses every ordinary batch: {results[0]}"


def _judge_settings(report: Report, exploration: Exploration) -> None:
    report.passed["settings"] = not exploration.inert and not exploration.broken
    for name, tried in exploration.inert.items():
        values = ", ".join(map(repr, tried[:6])) or "no other valid value was found"
        report.failures.append(f"{report.name}: inert setting {name!r} (tried {values})")
    report.failures += exploration.broken[:3]


def _first(claim: Claim, settings: Sequence[Any], bench: Bench) -> str | None:
    """The first failure of a claim among the settings of a part."""
    for part in settings:
        try:
            failed = claim(part, bench)
        except Exception as error:
            failed = f"{claim.__name__} {failure_of(error)}"
        if failed:
            return f"{part!r}: {failed}"
    return None
