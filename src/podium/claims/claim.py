"""A claim as a value: where it is measured, the minimal pair, one metric, a direction, and what would matter."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from podium.claims.metrics import METRICS
from podium.core.errors import PodiumError, one_of, within
from podium.core.value import Value
from podium.method import Method
from podium.methods import get

__all__ = ["Cell", "Condition", "MethodArm", "MethodClaim", "fingerprint", "frozen_problems", "plain_data"]

DIRECTIONS = ("more", "less", "not less")
BASE = "base"  # in the place of a method: the model before training
HASH = 16  # hexadecimal digits


class Cell(Value):
    """Where claims are measured: a world, and how much is trained there. Arms of a cell share tasks and chance."""

    name: str
    world: str
    level: int | None = None
    dials: dict[str, Any] | None = None  # other settings of the world
    iterations: int = 60
    tasks: int = 8  # an iteration
    pool: int | None = None  # distinct training tasks
    lr: float | None = None  # of all arms; None: each is tuned
    model: str = "podium/tiny"

    def __post_init__(self) -> None:
        within(self, "iterations", 1)
        within(self, "tasks", 1)

    def __hash__(self) -> int:
        return hash(fingerprint(self))

    def run_settings(self) -> dict[str, Any]:
        """What a run of an arm is configured with."""
        of_world = {**({} if self.level is None else {"level": self.level}), **(self.dials or {})}
        sizes: dict[str, Any] = {"iterations": self.iterations, "tasks": self.tasks, "model": self.model}
        return {"world": self.world, "world_settings": of_world or None, "pool": self.pool, **sizes}


class MethodArm(Value):
    """A method of the catalogue with arguments of its recipe and changed settings of its parts; `base` is the model
    before training."""

    method: str
    arguments: dict[str, Any] | None = None
    changes: dict[str, Any] | None = None  # by path, such as updates.epochs

    def __hash__(self) -> int:
        return hash(fingerprint(self))

    def build(self) -> Method:
        method = get(self.method, **(self.arguments or {}))
        for path, value in (self.changes or {}).items():
            method = method.set(path, value)
        sizes = dict.fromkeys(("tasks", "iterations", "max_tokens", "max_turns", "pool"))

        def unsized(plain: Method) -> Method:
            return plain if plain.protocol is None else plain.replace(protocol=plain.protocol.replace(**sizes))

        return method.each(unsized)

    @property
    def trains(self) -> bool:
        return self.method != BASE

    def text(self) -> str:
        settings = {**(self.arguments or {}), **(self.changes or {})}
        return f"{self.method}({', '.join(f'{k}={v}' for k, v in settings.items())})" if settings else self.method


class Condition(Value):
    """What the baseline must show, so that the claim can be seen in the cell at all."""

    metric: str
    low: float | None = None
    high: float | None = None
    since_start: bool = False  # whether the change from the model before training is meant

    def __post_init__(self) -> None:
        one_of(self, "metric", tuple(METRICS))

    def holds(self, value: float) -> bool:
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def text(self) -> str:
        low = "" if self.low is None else f"{self.low:g} ≤ "
        high = "" if self.high is None else f" ≤ {self.high:g}"
        return f"{low}{'change of ' if self.since_start else ''}{self.metric}{high}"


class MethodClaim(Value):
    """What is claimed of a method: `arm` has more, less, or not less of the metric than `baseline`, which differs from
    it by the mechanism alone."""

    slug: str
    number: int  # 1, and one more whenever something of it changes
    says: str  # the claim in a sentence
    cell: Cell
    arm: MethodArm
    baseline: MethodArm
    metric: str
    direction: str  # more, less, or not less (by `smallest`)
    smallest: float  # the smallest effect that matters, in units of the metric; of logarithms where it is relative
    control: MethodArm  # what must move the metric by `smallest` in the claimed direction
    present: tuple[Condition, ...] = ()
    dial: str = ""  # what the worlds lack to show it
    because: str = ""  # why it is another claim than its last number

    def __post_init__(self) -> None:
        one_of(self, "direction", DIRECTIONS)
        one_of(self, "metric", tuple(METRICS))
        within(self, "number", 1)
        within(self, "smallest", 0, open_low=True)
        if self.number > 1 and not self.because:
            raise PodiumError(f"The claim of {self.slug} has the number {self.number}: say why it changed.")

    @property
    def sign(self) -> float:
        return -1.0 if self.direction == "less" else 1.0

    @property
    def null(self) -> float:
        """What the signed effect must exceed to be shown."""
        return -self.smallest if self.direction == "not less" else 0.0

    @property
    def bar(self) -> float:
        """Below what the signed effect is refuted."""
        return -self.smallest if self.direction == "not less" else self.smallest

    @property
    def arms(self) -> tuple[MethodArm, ...]:
        return (self.arm, self.baseline)


def fingerprint(value: Value) -> str:
    """A hash of all that a value holds."""
    return hashlib.sha256(json.dumps(plain_data(value), sort_keys=True).encode()).hexdigest()[:HASH]


def plain_data(value: Any) -> Any:
    """What JSON can hold of a value, at any depth."""
    if isinstance(value, Value):
        return {"kind": type(value).__name__, **{k: plain_data(v) for k, v in value.settings().items()}}
    if isinstance(value, Mapping):
        return {str(k): plain_data(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [plain_data(v) for v in value]
    return value


def frozen_problems(claims: Sequence[MethodClaim], frozen: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Where claims are not what was frozen. `frozen` has for each slug its hashes by number, with the reasons."""
    problems = []
    for claim in claims:
        known = frozen.get(claim.slug, ())
        if [entry["number"] for entry in known] != list(range(1, len(known) + 1)):
            problems.append(f"{claim.slug}: the frozen numbers are not 1, 2, …")
        if any(entry["number"] > 1 and not entry["because"] for entry in known):
            problems.append(f"{claim.slug}: a frozen change has no reason.")
        if not known or claim.number != known[-1]["number"]:
            problems.append(f"{claim.slug}, number {claim.number}, is not frozen.")
        elif known[-1]["hash"] != fingerprint(claim):
            problems.append(f"{claim.slug}: number {claim.number} has changed: give it a new number and a reason.")
    if missing := set(frozen) - {claim.slug for claim in claims}:
        problems.append(f"Frozen claims are gone: {', '.join(sorted(missing))}.")
    return problems
