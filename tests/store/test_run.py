"""A run's directory: whole files, one writer, lines that survive a kill."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from podium.core.errors import PodiumError
from podium.store.files import atomic_directory, atomic_text, explained
from podium.store.run import RunDirectory


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    atomic_text(file, "old")

    def fails(part: Path) -> None:
        (part / "half").write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(PodiumError, match="disk is full"):
        atomic_directory(tmp_path / "checkpoint", fails)
    assert not (tmp_path / "checkpoint").exists()
    assert file.read_text() == "old"


def test_a_place_without_permission_is_named(tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match="no permission"), explained(tmp_path / "x"):
        raise PermissionError(errno.EACCES, "Permission denied")


def test_an_unfinished_line_of_metrics_is_left_out(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.append_metrics({"iteration": 1, "reward": 0.5})
    with (tmp_path / "metrics.jsonl").open("a") as out:
        out.write('{"iteration": 2, "rew')
    assert [line["iteration"] for line in run.metrics()] == [1]


def test_rewinding_forgets_what_came_later(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    for iteration in range(4):
        run.append_metrics({"iteration": iteration})
        (tmp_path / "rollouts").mkdir(exist_ok=True)
        (tmp_path / f"rollouts/iteration-{iteration:06d}.parquet").write_text("")
    run.rewind(1)
    assert [line["iteration"] for line in run.metrics()] == [0, 1]
    assert len(list((tmp_path / "rollouts").iterdir())) == 2


def test_only_the_newest_checkpoints_stay(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    for iteration in range(1, 5):
        run.write_checkpoint(iteration, lambda part: (part / "state.json").write_text("{}"), keep=2)
    assert [p.name for p in run.checkpoints()] == ["iteration-000003", "iteration-000004"]


def test_a_directory_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match=r"no config\.yaml"):
        RunDirectory(tmp_path).read_config()
