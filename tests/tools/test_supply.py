"""The check of dependencies: what it finds wrong, and that the lock file is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tools.checks.__main__ import table
from tools.checks.supply import LOCK, SKIPPED, broken_bounds, declared, drift, imported, judged, licence, locked


class Package:
    """A distribution with nothing but metadata."""

    def __init__(self, **fields: str) -> None:
        self.metadata: Any = Fields({name.replace("_", "-"): value for name, value in fields.items()})


class Fields(dict[str, str]):
    def get_all(self, name: str) -> list[str]:
        return [self[name]] if name in self else []


def test_the_lock_file_keeps_the_bounds_of_the_project() -> None:
    runtime, develop, _ = declared()
    assert list(broken_bounds(locked(LOCK.read_text("utf-8")), [*runtime, *develop])) == []


def test_a_version_outside_its_bounds_and_a_missing_one_are_named() -> None:
    wanted = [Requirement("numpy>=1.26,<3"), Requirement("PyYAML>=6"), Requirement("rich")]
    found = list(broken_bounds(locked("# a comment\nnumpy==3.1\npyyaml==6.0.3\n"), wanted))
    assert found == ["numpy is locked at 3.1, outside <3,>=1.26", "rich is not in the lock file"]


def test_what_is_installed_must_be_what_is_locked() -> None:
    found = list(drift({"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "1"}))
    assert found == [
        "b: locked 1, installed 2",
        "c: locked 1, installed not at all",
        "d: locked not at all, installed 1",
    ]


def test_imports_are_found_wherever_they_stand(tmp_path: Path) -> None:
    text = "import a.b\nfrom . import near\ndef f():\n    from c.d import e\n"
    (tmp_path / "x.py").write_text(text, "utf-8")
    assert imported(tmp_path) == {"a", "c"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"License_Expression": "MIT"}, "MIT"),
        ({"Classifier": "License :: OSI Approved :: BSD License", "License": "a long text"}, "BSD License"),
        ({"License": "Apache-2.0\nand more"}, "Apache-2.0"),
        ({}, ""),
    ],
)
def test_the_licence_of_a_package_is_read_from_its_metadata(fields: dict[str, str], expected: str) -> None:
    assert licence(Package(**fields)) == expected  # type: ignore[arg-type]


def test_packages_that_could_not_be_looked_up_are_not_audited(capsys: pytest.CaptureFixture[str]) -> None:
    sound, unknown = {"name": "a", "version": "1", "vulns": []}, {"name": "b", "skip_reason": "not found"}
    bad = {"name": "c", "version": "2", "vulns": [{"id": "CVE-1"}]}
    assert [judged([sound]), judged([sound, unknown]), judged([sound, unknown, bad])] == [0, SKIPPED, 1]
    said = capsys.readouterr().out
    assert "not reachable, so not audited: 1 of 2 packages" in said
    assert "c 2: CVE-1" in said


def test_a_skipped_check_has_neither_passed_nor_failed() -> None:
    row = {"figure": "not reachable", "date": "", "commit": "", "minutes": 0, "machine": ""}
    skipped = table("slow", {"audit": {**row, "passed": False, "skipped": True}})
    assert "| skipped | not reachable |" in skipped
    assert "**failed**" not in skipped
    assert "| **failed** |" in table("slow", {"audit": {**row, "passed": False}})
