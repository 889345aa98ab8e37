"""Checks that hold numbers, conformance cases and unit tests, and which functions each of them runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests.conformance.case import Case, VectorFile
from tests.conformance.compare import tolerance
from tests.conformance.registry import adapters
from tests.conformance.runner import read, run_case
from tools.numbers.entry_points import Subject

__all__ = ["TESTS", "Check", "Recording", "cases", "in_session", "record", "unit_tests"]

# Folders whose tests hold formulas to numbers. Those marked `long` are left out.
TESTS = ("tests/parts", "tests/memories", "tests/strategies", "tests/methods", "tests/core", "tests/method")


@dataclass(frozen=True)
class Check:
    """Something that passes or fails."""

    name: str  # `vector grpo 3`, or the name of a test
    passes: Callable[[], bool] = field(compare=False)

    @property
    def vector(self) -> bool:
        return self.name.startswith("vector ")


@dataclass
class Recording:
    """The checks that run each function, the fastest first."""

    by_subject: dict[str, list[Check]]
    seconds: dict[Check, float]


def cases() -> list[Check]:
    """The cases of the reference vectors."""
    known, found = adapters(), []
    for slug, file in read():
        assert isinstance(file, VectorFile)
        tolerances = {key: tolerance(file, key) for c in file.cases if isinstance(c, Case) for key in c.expected}
        for case in file.cases:
            assert isinstance(case, Case)

            def passes(case: Case = case, slug: str = slug, tolerances: dict[str, float] = tolerances) -> bool:
                return not run_case(case, known[slug], tolerances)

            found.append(Check(f"vector {slug} {case.number}", passes))
    return found


def unit_tests(items: Sequence[pytest.Item]) -> list[Check]:
    """Tests that pytest has collected."""

    def check(item: pytest.Item) -> Check:
        def passes() -> bool:
            item._initrequest()  # type: ignore[attr-defined]
            return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))

        return Check(item.nodeid, passes)

    return [check(item) for item in items if item.get_closest_marker("long") is None]


def in_session(work: Callable[[list[Check]], int], tests: Sequence[str] = TESTS) -> int:
    """Call `work` with all checks inside a session of pytest, which the unit tests need."""
    outcome = []

    class Session:
        def pytest_runtestloop(self, session: pytest.Session) -> bool:
            outcome.append(work([*cases(), *unit_tests(session.items)]))
            return True

    code = pytest.main(["-q", "-s", "-p", "no:cacheprovider", "--no-header", *tests], plugins=[Session()])
    return outcome[0] if outcome else int(code)


def record(checks: Iterable[Check], subjects: Sequence[Subject]) -> Recording:
    """Run every check once and note the functions that it runs. A check that fails is an error: mend it first."""
    watched: dict[CodeType, str] = {s.function.__code__: str(s) for s in subjects}
    found: dict[str, list[Check]] = {str(s): [] for s in subjects}
    seconds: dict[Check, float] = {}
    running: set[CodeType] = set()

    def called(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code in watched:
            running.add(frame.f_code)

    for check in checks:
        running.clear()
        start = time.perf_counter()
        sys.setprofile(called)
        try:
            passed = check.passes()
        finally:
            sys.setprofile(None)
        if not passed:
            print(f"fails without any mutant: {check.name}", flush=True)
            continue
        seconds[check] = time.perf_counter() - start
        for code in running:
            found[watched[code]].append(check)
    for listed in found.values():
        listed.sort(key=lambda check: seconds[check])
    return Recording(found, seconds)
