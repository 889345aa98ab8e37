"""Run vector files through their adapters."""

from __future__ import annotations

import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.conformance.case import Case, Malformed, VectorFile, load
from tests.conformance.compare import deviation, tolerance
from tests.conformance.registry import Adapter, adapters, set_aside

__all__ = ["VECTORS", "Failure", "Report", "read", "run", "run_case", "summary"]

VECTORS = Path(__file__).parent / "vectors"


@dataclass(frozen=True)
class Failure:
    """What is wrong with a case, for a person to act on."""

    case: int | None  # None: the whole file
    note: str
    key: str | None  # None: the case did not get as far as its keys
    message: str
    deviation: float | None = None

    def __str__(self) -> str:
        case = "" if self.case is None else f"case {self.case}" + (f" ({self.note})" if self.note else "") + ": "
        return case + (f"{self.key}: " if self.key else "") + self.message


@dataclass(frozen=True)
class Report:
    """What came of a file. A file that cannot be read counts as one failed case."""

    slug: str
    passed: int
    total: int
    tolerances: Mapping[str, float]  # by expected key
    failures: Sequence[Failure]

    @property
    def ok(self) -> bool:
        return self.passed == self.total and not self.failures

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"ok": self.ok}


def read(directory: Path = VECTORS) -> list[tuple[str, VectorFile | Malformed]]:
    """(slug, file) for each `*.json` of the directory, in the order of their names."""
    files = [(path, load(path)) for path in sorted(directory.glob("*.json"))]
    return [(path.stem if isinstance(file, Malformed) else file.slug, file) for path, file in files]


def run(directory: Path = VECTORS, only: Collection[str] = ()) -> Iterator[Report]:
    """A report for each vector file of the directory, or for those of the slugs in `only`."""
    known = adapters()
    for slug, file in read(directory):
        if not only or slug in only:
            yield _run_file(slug, file, known.get(slug))


def _run_file(slug: str, file: VectorFile | Malformed, adapt: Adapter | None) -> Report:
    if isinstance(file, Malformed):
        return Report(slug, 0, 1, {}, [Failure(None, "", None, file.reason)])
    if adapt is None:
        reason = f"no adapter is registered for {slug!r}: add one to tests/conformance/adapters/"
        return Report(slug, 0, len(file.cases), {}, [Failure(None, "", None, reason)])
    tols = {key: tolerance(file, key) for case in file.cases if isinstance(case, Case) for key in case.expected}
    failures: list[Failure] = []
    passed = 0
    for number, case in enumerate(file.cases):
        if isinstance(case, Malformed):
            found = [Failure(number, "", None, case.reason)]
        else:
            found = run_case(case, adapt, tols)
        passed += not found
        failures += found
    return Report(slug, passed, len(file.cases), tols, failures)


def run_case(case: Case, adapt: Adapter, tols: Mapping[str, float]) -> list[Failure]:
    """What is wrong with the values that an adapter gives for a case."""
    try:
        results = adapt(case)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        return [Failure(case.number, case.note, None, f"{type(error).__name__}: {error} ({place})" + _unread(case))]
    failures = []
    for key, expected in case.expected.items():
        if key in set_aside().get(case.slug, ()):
            continue
        if key not in results:
            failures.append(Failure(case.number, case.note, key, "the adapter gives no value for this key"))
            continue
        found = deviation(expected, results[key], tols[key])
        if found is not None:
            failures.append(Failure(case.number, case.note, key, found.message + _unread(case), found.size))
    return failures


def _unread(case: Case) -> str:
    """A hint: settings that the adapter never looked at."""
    names = case.hyper.unread()
    return f" [settings that the adapter did not read: {', '.join(names)}]" if names else ""


def summary(reports: Sequence[Report]) -> str:
    cases, total = sum(r.passed for r in reports), sum(r.total for r in reports)
    return f"total: {cases}/{total} cases, {sum(r.ok for r in reports)}/{len(reports)} slugs"
