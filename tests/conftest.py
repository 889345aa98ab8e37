"""Marks the tests that take long, so that `make test-fast` can leave them out.

`pytest --record-long` writes `tests/long.json`: the tests that took more than LIMIT seconds. They are marked `long`; a
test that is not listed counts as fast.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

LONG = Path(__file__).parent / "long.json"
LIMIT = 0.25
_seconds: defaultdict[str, float] = defaultdict(float)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-long", action="store_true", help="write which tests take long to tests/long.json")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    long = set(json.loads(LONG.read_text("utf-8"))) if LONG.exists() else set()
    for item in items:
        if item.nodeid in long:
            item.add_marker(pytest.mark.long)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--record-long") and not hasattr(session.config, "workerinput"):
        slow = {name: round(seconds, 1) for name, seconds in sorted(_seconds.items()) if seconds > LIMIT}
        LONG.write_text(json.dumps(slow, indent=0, ensure_ascii=False) + "\n", "utf-8")
