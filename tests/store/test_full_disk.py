"""A full disk at any point of writing: one message, what was there stays, and the run goes on when there is room."""

from __future__ import annotations

import errno
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from safetensors import SafetensorError

import podium.training.checkpoint
from podium.cli import main
from podium.core.errors import PodiumError
from podium.sessions.train import resume, train
from podium.store import run_directory as store
from podium.store.retention import examples_kept, kept_text
from podium.store.run_directory import RunDirectory
from podium.store.tables import rollout_files
from tests.sessions.test_train import numbers, small, weights

CONFIG = small(iterations=3, checkpoint_every=1, keep_checkpoints=9)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "run"
    train(CONFIG, out=path)
    return path


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def full_for_weights(*_: object, **__: object) -> None:
    raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


def after(times: int, then: Callable[..., Any], fails: Callable[..., Any]) -> Callable[..., Any]:
    """`then` for so many calls, and after them the failure."""
    count = iter(range(times))

    def call(*args: Any, **kwargs: Any) -> Any:
        return then(*args, **kwargs) if next(count, None) is not None else fails(*args, **kwargs)

    return call


@pytest.mark.parametrize(
    ("owner", "name", "times", "fails", "file"),
    [
        (store.RunDirectory, "append_metrics", 2, None, "metrics.jsonl"),
        (pq, "write_table", 1, full, "iteration-000002.parquet"),
        (podium.training.checkpoint, "save_file", 1, full_for_weights, "iteration-000002"),
        (podium.training.checkpoint, "save_file", 1, full, "iteration-000002"),
    ],
    ids=["metrics", "rollouts", "checkpoint", "checkpoint-os"],
)
def test_a_full_disk_is_said_and_nothing_earlier_is_lost(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    whole: Path,
    owner: Any,
    name: str,
    times: int,
    fails: Callable[..., Any] | None,
    file: str,
) -> None:
    if fails is None:  # the second half of the line finds no room

        def fails(directory: RunDirectory, line: Any) -> None:
            place = directory.path / "metrics.jsonl"
            with store.explained(place), place.open("a") as out:
                out.write('{"iteration": 2, "rew')
                full()

    path = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, after(times, getattr(owner, name), fails))
        with pytest.raises(PodiumError, match=rf"^The disk is full: .*{file} could not be written\. Free some space"):
            train(CONFIG, out=path)
    assert [p.name for p in RunDirectory(path).checkpoints()] == ["iteration-000001"]
    assert not list(path.rglob(".*.part"))  # what is half written does not take space
    resume(path)
    assert numbers(path) == numbers(whole)
    assert all((weights(path)[k] == w).all() for k, w in weights(whole).items())


def test_a_real_limit_of_file_sizes_stops_a_run_in_the_same_way(tmp_path: Path, whole: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(whole, path)
    for later in RunDirectory(path).checkpoints()[1:]:
        shutil.rmtree(later)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))  # rollouts fit, weights do not
    try:
        with pytest.raises(PodiumError, match=r"iteration-000002 could not be written: .*File too large"):
            resume(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [p.name for p in RunDirectory(path).checkpoints()] == ["iteration-000001"]
    resume(path)
    assert numbers(path) == numbers(whole)


def test_a_full_disk_while_old_rollouts_are_thinned_leaves_them_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path
) -> None:
    path, config = tmp_path / "run", CONFIG.replace(keep_rollouts_gb=0.0)
    with monkeypatch.context() as patched:  # two iterations are written, then the first is thinned
        patched.setattr(pq, "write_table", after(2, pq.write_table, full))
        with pytest.raises(PodiumError, match=r"^The disk is full: .*iteration-000001\.parquet could not be written"):
            train(config, out=path)
    assert examples_kept(RunDirectory(path).rollouts(1)) is None
    resume(path)
    assert numbers(path) == numbers(whole)
    assert kept_text(rollout_files(path)) == "iterations 1–2: 8 examples each; 3: whole"


def test_a_full_disk_while_the_report_is_written_is_reported_and_costs_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], whole: Path
) -> None:
    shutil.copytree(whole, tmp_path / "run")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", full)  # the metrics are written as bytes
        assert main(["train", "--quiet", "--resume", str(tmp_path / "run")]) == 2
    said = "report.html could not be written. Free some space and resume the run."
    assert said in capsys.readouterr().err
    assert main(["train", "--quiet", "--resume", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run/report.html").is_file()
