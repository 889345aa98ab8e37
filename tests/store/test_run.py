"""A run's directory: whole files, one writer, lines that survive a kill."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from podium.core import Batch, Rollout, Turn
from podium.core.errors import PodiumError
from podium.store.files import atomic_directory, atomic_text, explained
from podium.store.run_directory import RunDirectory


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


def test_rollouts_hold_what_their_tokens_have_as_lists_but_no_wide_signals(tmp_path: Path) -> None:
    first = Rollout("a", [Turn((1, 2), context=(7,), columns={"said": "x"})])
    batch = Batch.from_rollouts([first, Rollout("b", [Turn((), columns={"said": "y"})])])
    columns = {
        "token.mark": torch.tensor([True, False]),
        "token.pair": torch.tensor([[1, 2], [3, 4]]),
        "token.sampler.top": torch.arange(40.0).reshape(2, 20),
        "token.teacher.top": torch.arange(40.0).reshape(2, 20),
        "rollout.reward": torch.tensor([1.0, 0.5]),
    }
    run = RunDirectory(tmp_path)
    run.write_rollouts(3, batch.with_columns(columns))
    table = pq.read_table(run.rollouts(3))
    assert table["token.id"].to_pylist() == [[1, 2], []]
    assert table["token.mark"].to_pylist() == [[True, False], []]
    assert table["token.pair"].to_pylist() == [[[1, 2], [3, 4]], []]
    assert len(table["token.sampler.top"].to_pylist()[0][1]) == 20
    assert "token.teacher.top" not in table.column_names
    assert table["turn.said"].to_pylist() == [["x"], ["y"]]
    assert table["turn.context"].to_pylist() == [[[7]], [[]]]
    assert table["reward"].to_pylist() == [1.0, 0.5]
    assert table["iteration"].to_pylist() == [3, 3]
