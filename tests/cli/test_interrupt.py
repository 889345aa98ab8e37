"""Ctrl-C: once ends the run after the iteration under way, with a checkpoint; twice ends it at once."""

from __future__ import annotations

import signal
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
