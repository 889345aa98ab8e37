"""Ctrl-C: once ends the run after the iteration under way, with a checkpoint; twice ends it at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from podium.cli import main
from podium.sessions import train as session
from podium.sessions.train import resume, train
from tests.sessions.test_train import numbers, small

CONFIG = small(iterations=3)


def interrupts(times: int) -> session.Progress:
    """Press Ctrl-C so often after the first iteration."""

    def progress(run: Any, line: Mapping[str, Any]) -> None:
        if line["iteration"] == 1:
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)

    return progress


def test_once_ends_the_run_with_a_checkpoint_and_it_goes_on_to_the_bit(tmp_path: Path) -> None:
    train(CONFIG, out=tmp_path / "whole")
    result = train(CONFIG, out=tmp_path / "run", progress=interrupts(1))
    assert not result.finished
    assert [line["iteration"] for line in result.metrics] == [0, 1]
    assert resume(tmp_path / "run").finished
    assert numbers(tmp_path / "run")[-1]["iteration"] == 3
    assert numbers(tmp_path / "run") == numbers(tmp_path / "whole")


def test_twice_ends_it_at_once(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(CONFIG, out=tmp_path / "run", progress=interrupts(2))
    assert resume(tmp_path / "run").finished


def test_the_command_ends_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def pressed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "iterate", pressed)
    code = main(["train", "--quiet", "--out", str(tmp_path / "run"), "--set", "eval_tasks=2"])
    assert code == 130
    assert capsys.readouterr().err.strip() == (
        "Error: Stopped at once. To continue a run from its last checkpoint: podium train --resume RUN"
    )


def handles(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
    return bool(caught >> (number - 1) & 1)


def test_a_signal_before_the_run_begins_asks_to_be_resumed_too(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "podium.cli", "train", "--out", str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        while not handles(process.pid, signal.SIGTERM):
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 75
    assert "Stopped by SIGTERM" in said
