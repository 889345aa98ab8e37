"""The recorded runs of the doctor's tests, as courses; `python -m tools.record_runs` has made them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from podium.analysis.health import Course, RunSetting

FOLDER = Path(__file__).parent


def recorded(name: str) -> dict[str, dict[str, Any]]:
    """The runs of a set by name."""
    runs: dict[str, dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return runs


def course_of(run: dict[str, Any], directory: str = "RUN") -> Course:
    columns = run["columns"]
    count = len(columns["iteration"])
    lines = [{name: x[i] for name, x in columns.items() if x[i] is not None} for i in range(count)]
    return Course(lines, RunSetting(run=directory, **run["setting"]))
