"""Trackers get the numbers of metrics.jsonl by the same names, and never decide or stop a run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import podium
from podium.cli import main
from podium.sessions.train import resume, train
from podium.store.run_directory import RunDirectory
from podium.training import trackers as track
from podium.training.trackers import flat
from tests.sessions.test_train import numbers, small


class Remembers:
    """A tracker that keeps what it is given, and fails when asked to."""

    fails_at: int | None = None
    seen: list[tuple[int, Mapping[str, float]]]

    def __init__(self, *_: Any) -> None:
        self.seen = []
        opened.append(self)

    def log(self, iteration: int, values: Mapping[str, float]) -> None:
        if iteration == self.fails_at:
            raise ConnectionError("the network\nis gone")
        self.seen.append((iteration, values))

    def close(self) -> None:
        self.seen.append((-1, {}))


opened: list[Remembers] = []


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    opened.clear()
    monkeypatch.setattr(Remembers, "fails_at", None)
    monkeypatch.setitem(track.TRACKERS, "json", Remembers)  # any package that is there


def test_a_tracker_gets_every_line_by_the_names_of_the_metrics(tmp_path: Path) -> None:
    result = train(small(iterations=2), out=tmp_path / "run", track="json")
    (tracker,) = opened
    assert [i for i, _ in tracker.seen] == [0, 1, 2, -1]
    for line, (_, values) in zip(result.metrics, tracker.seen[:-1], strict=True):
        assert values == flat(line)
    assert {"reward", "pass@1", "seconds.train"} <= set(tracker.seen[1][1])


def test_a_tracker_that_fails_is_left_out_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Remembers, "fails_at", 1)
    result = train(small(iterations=2), out=tmp_path / "run", track="json")
    assert result.finished
    assert opened[0].seen == [(0, flat(result.metrics[0]))]
    assert capsys.readouterr().err == "The tracker json failed and is left out from here on: the network is gone\n"


def test_a_run_may_be_resumed_with_other_trackers_and_has_the_same_numbers(tmp_path: Path) -> None:
    config = small(iterations=2, checkpoint_every=1, keep_checkpoints=5)
    train(config, out=tmp_path / "plain")
    train(config, out=tmp_path / "run", track="json")
    assert "json" not in (tmp_path / "run/config.yaml").read_text()
    import shutil

    shutil.rmtree(RunDirectory(tmp_path / "run").checkpoints()[-1])
    resume(tmp_path / "run", config=config, track=[])
    assert numbers(tmp_path / "run") == numbers(tmp_path / "plain")


def test_a_missing_package_is_said_before_anything_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)  # importing it fails
    code = main(["train", "grpo", "--out", str(tmp_path / "run"), "--track", "wandb"])
    error = capsys.readouterr().err
    assert code == 2
    assert error == "Error: --track wandb needs the package wandb: pip install 'podium-rl[track]'.\n"
    assert not (tmp_path / "run").exists()


def test_an_unknown_tracker_gets_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(podium.PodiumError, match="'tensorboard'"):
        train(small(iterations=1), out=tmp_path / "run", track="tensorbord")
    assert not (tmp_path / "run").exists()


def test_tensorboard_has_the_curves(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = train(small(iterations=2), out=tmp_path / "run", track="tensorboard")
    events = EventAccumulator(str(tmp_path / "run/tensorboard"))
    events.Reload()
    curve = events.Scalars("reward")
    assert [e.step for e in curve] == [1, 2]
    assert [e.value for e in curve] == pytest.approx([line["reward"] for line in result.metrics[1:]])
    assert {"eval.pass@1", "seconds.train"} <= set(events.Tags()["scalars"])


def test_wandb_writes_an_offline_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    result = train(small(iterations=1), out=tmp_path / "run", track="wandb")
    wandb.teardown()  # as at the end of a process: its service writes what it still holds
    (file,) = (tmp_path / "run/wandb").glob("offline-run-*/*.wandb")
    assert b"pass@1" in file.read_bytes()
    assert result.finished


def test_wandb_that_cannot_start_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")

    def fails(**_: Any) -> None:
        raise wandb.errors.UsageError("No API key configured.\nUse `wandb login`.")

    monkeypatch.setattr(wandb, "init", fails)
    with pytest.raises(podium.PodiumError, match=r"^wandb cannot start: No API key.*WANDB_MODE=offline\.$"):
        train(small(iterations=1), out=tmp_path / "run", track="wandb")
    assert not (tmp_path / "run/metrics.jsonl").exists()
