"""Every example script runs from start to end, with few iterations."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

import podium

EXAMPLES = Path(__file__).parents[2] / "examples"
# What makes each script short; those that are not named take no argument.
QUICK: dict[str, dict[str, Any]] = {
    "compare_methods.py": {"iterations": 2, "seeds": 1},
    "many_turns.py": {"iterations": 2},
    "own_part.py": {"iterations": 2},
    "own_world.py": {"iterations": 2},
    "phases.py": {"iterations": 3},
    "quickstart.py": {"iterations": 2},
    "read_a_run.py": {"run": "run"},
}
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py") if path.name != "bandit.py")  # which has tests of its own


def test_there_are_scripts_to_start_from() -> None:
    assert len(SCRIPTS) >= 8
    assert set(QUICK) <= set(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_script_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if name == "read_a_run.py":
        podium.train("grpo", world="echo", level=1, iterations=1, tasks=2, eval_tasks=2, out="run")
        capsys.readouterr()
    monkeypatch.syspath_prepend(EXAMPLES)
    importlib.import_module(name.removesuffix(".py")).main(**QUICK.get(name, {}))
    assert capsys.readouterr().out.strip()
