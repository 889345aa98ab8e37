"""What the command line answers at once: without torch, and before anything is loaded or printed."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 1.0  # of CPU time, several times what it takes on a machine with nothing else to do
HEAVY = ("torch", "transformers", "pyarrow", "scipy", "rich")


def run(code: str, *arguments: str) -> tuple[subprocess.CompletedProcess[str], float]:
    """A fresh interpreter, and the CPU time that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def command(*arguments: str) -> tuple[subprocess.CompletedProcess[str], list[str], float]:
    """The command, which heavy packages it imported, and its CPU time."""
    code = (
        "import sys\nfrom podium.cli import main\ncode = main()\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\nsys.exit(code)"
    )
    ended, seconds = run(code, *arguments)
    *errors, imported = ended.stderr.splitlines()
    ended.stderr = "\n".join(errors)
    return ended, eval(imported), seconds


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--help",
        "--version",
        "train --help",
        "methods",
        "methods --help",
        "methods --family turns",
        "methods --kind metric",
        "methods --stage keep",
        "methods --search curriculum",
        "methods show grpo",
        "methods show grpo@verl",
        "methods show gigpo --all",
        "methods show drive",
    ],
)
def test_listing_and_showing_need_no_torch(line: str) -> None:
    ended, imported, seconds = command(*line.split())
    assert ended.returncode == 0
    assert ended.stdout
    assert imported == []
    assert seconds < SECONDS


def test_importing_podium_needs_no_torch() -> None:
    ended, seconds = run(f"import sys, podium\nassert not set({HEAVY!r}) & set(sys.modules)")
    assert ended.returncode == 0, ended.stderr
    assert seconds < SECONDS


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("train grpp", "There is no method 'grpp'"),
        ("train grpo@verll", "grpo has no preset 'verll'"),
        ("train dapo+grpp", "There is no method 'grpp'"),
        ("train missing.yaml", "Cannot read 'missing.yaml'"),
        ("train --world jsonl:none.jsonl", "There is no file 'none.jsonl'"),
        ("train --world none.py:World", "There is no file 'none.py'"),
        ("train --resume none", "none is not a run"),
        ("train --out FILE", "FILE is a file, not a directory"),
        ("train --out FILE/run", "FILE/run could not be written: Not a directory"),
        ("train --out /proc/none/run", "could not be written"),
        ("train --device gpu", "use cpu, cuda or cuda:N."),
        ("train --model none/such/model", "There is no model directory none/such/model"),
        ("train --world jsonl:FILE", "FILE has no rows"),
        ("train --config none.yaml", "Cannot read 'none.yaml'"),
        ("train grpo --config none.yaml", "--config contains a method"),
        ("train --set tasks", "PATH=VALUE"),
        ("train --set tsks=3", "nor the run has a setting 'tsks'"),
        ("train --set lr=3", "write optimizer.lr"),
        ("train --set noise=3", "write world.noise"),
        ("compare grpo grpp", "There is no method 'grpp'"),
        ("compare grpo", "at least two methods"),
        ("eval podium/tiny --world jsonl:none.jsonl", "There is no file 'none.jsonl'"),
        ("eval podium/tiny --k many", "--k 'many' is not a number"),
        ("methods show grop", "Did you mean 'grpo'"),
        ("methods show grpo@verll", "'verl'"),
        ("methods check grop", "Did you mean 'grpo'"),
        ("methods check grpo --columns state", "turn.state"),
        ("methods compare grpo --rewards 1,x", "1,0,0,0"),
        ("methods matrix grop", "Did you mean 'grpo'"),
    ],
)
def test_names_and_files_that_are_not_there_are_refused_without_torch(
    line: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FILE").write_text("")
    ended, imported, seconds = command(*line.split())
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert message in ended.stderr
    assert "torch" not in imported
    assert seconds < SECONDS


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("train --set tasks=0", "Config.tasks = 0 is out of range"),
        ("train --set advantage.scal=none", "Normalize has no setting 'scal'"),
        ("train --set world.nose=1", "has no setting 'nose'"),
        ("train --world smus", "There is no world 'smus'"),
        ("train --world sums --level 9", "sums has no level 9"),
        ("train gigpo --world sums", "gigpo cannot run on sums"),
        ("train --track wandbb", "There is no tracker 'wandbb'"),
    ],
)
def test_other_settings_are_refused_before_a_model_is_loaded_or_a_line_is_printed(
    line: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FILE").write_text("")
    ended, imported, _ = command(*line.split())
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert message in ended.stderr
    assert "transformers" not in imported
    assert [path.name for path in tmp_path.iterdir()] == ["FILE"]
