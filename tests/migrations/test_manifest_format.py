"""A run recorded with manifests and checks on lines of metrics goes on to the bit, without a word."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from podium.store.manifest import check_manifest
from podium.store.metrics_log import read_log
from podium.store.run_directory import RunDirectory
from tests.migrations.resumed import check_goes_on

RECORDED = Path(__file__).parent / "runs_2/spear"


def test_a_recorded_run_with_a_manifest_continues_to_the_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        check_goes_on(RECORDED, tmp_path)


def test_the_files_of_a_recorded_run_match_their_checks() -> None:
    (checkpoint,) = RunDirectory(RECORDED).checkpoints()
    assert check_manifest(checkpoint)
    log = read_log(RECORDED / "metrics.jsonl")
    assert [line["iteration"] for line in log.lines] == [0, 1, 2]
    assert log.damaged == ()
