"""`podium doctor` on run directories, the warnings of a run that goes on, and remedies that can be typed."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from podium.analysis.health import Course, diagnose
from podium.cli import main
from podium.cli.train import configured
from podium.sessions import train as session
from podium.sessions.doctor import Watch, examine_runs, history_of, machine_of
from podium.training.config import Config
from tests.analysis.health.planted import PLANTED
from tests.analysis.health.recorded_runs import course_of, recorded


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose answers are all cut off."""
    path = tmp_path_factory.mktemp("doctor") / "run"
    told: list[str] = []
    settings = {"world": "sums", "level": 2, "iterations": 6, "tasks": 2, "max_tokens": 4, "eval_tasks": 2}
    session.train("grpo", out=path, tell=told.append, **settings)
    (note,) = (note for note in told if note.startswith("Iteration"))
    assert note.startswith("Iteration 5, truncation: 100 % of the answers were cut at max_tokens = 4")
    return path


def test_the_command_says_what_was_seen_why_it_matters_and_what_to_do(
    cut: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", str(cut)]) == 0
    out = capsys.readouterr().out
    assert "truncation" in out
    assert "An answer that is cut off is wrong" in out
    assert f"Remedy: podium train --config {cut}/config.yaml --set max_tokens=8" in out
    assert main(["doctor", str(cut), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)[str(cut)]
    assert found["rule"] == "truncation"


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(tmp_path)]) == 2
    assert "is not a run" in capsys.readouterr().err


def test_a_warning_comes_with_the_iteration_in_which_it_is_true_and_once(cut: Path) -> None:
    told: list[str] = []
    history = history_of(cut)
    watch = Watch(Config.from_yaml((cut / "config.yaml").read_text()), cut, [], told.append)
    for line in history.lines:
        watch(line)
    assert [note.split(":")[0] for note in told] == ["Iteration 5, truncation"]


def test_a_resumed_run_does_not_lose_what_it_has_seen(cut: Path) -> None:
    told: list[str] = []
    lines = history_of(cut).lines
    watch = Watch(Config.from_yaml((cut / "config.yaml").read_text()), cut, lines[:-1], told.append)
    watch(lines[-1])
    assert len(told) == 1


@pytest.mark.parametrize("name", sorted(PLANTED))
def test_a_remedy_that_trains_anew_can_be_typed(name: str, cut: Path) -> None:
    course = course_of(recorded("tuning")["grpo on sums 2"], str(cut))
    for found in diagnose(PLANTED[name][1](course)):
        assert found.mend
        typed = found.mend.split("podium train --config")
        if len(typed) > 1:
            words = shlex.split(typed[1].split(" (")[0].split(", ")[0])
            changes = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
            assert changes
            assert configured(Path(words[0]), "grpo", {}, changes, [], False)


def test_runs_of_several_seeds_are_compared(cut: Path, tmp_path: Path) -> None:
    assert set(examine_runs([cut])) == {str(cut)}


def test_the_machine_is_measured(cut: Path) -> None:
    machine = machine_of(cut, 6)
    assert machine.disk_free is not None
    assert machine.disk_free > 0
    assert machine.written_per_iteration > 0
    assert machine.memory_free is not None
    assert machine.memory_total is not None
    assert 0 < machine.memory_free <= machine.memory_total


def test_an_empty_course_is_no_illness() -> None:
    course = course_of(recorded("tuning")["grpo on sums 2"])
    assert diagnose(replace(course, lines=[])) == []
    assert diagnose(Course(course.lines[:1], course.setting)) == []
