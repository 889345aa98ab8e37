"""Settings that cannot work are refused before anything is loaded or written."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

from podium.core.errors import PodiumError
from podium.sessions import train as session
from podium.sessions.train import train
from podium.training import preflight
from podium.training.preflight import check_resources


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:3"])
def test_devices_that_may_be_there_pass(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "GPU_DRIVERS", ("/",))
    check_resources(device=device)


def test_a_gpu_is_refused_where_there_is_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "GPU_DRIVERS", ("/none",))
    monkeypatch.setattr(preflight.sys, "platform", "linux")
    with pytest.raises(PodiumError, match="no GPU driver"):
        check_resources(device="cuda")


@pytest.mark.parametrize("model", ["podium/tiny", "someone/some-model", "some-model"])
def test_a_name_that_may_be_on_the_hub_passes(model: str) -> None:
    check_resources(model=model)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"device": "gpu"}, "There is no device 'gpu': use cpu, cuda or cuda:N."),
        ({"model": "no/such/model"}, "There is no model directory no/such/model."),
        ({"model": "./model"}, "There is no model directory ./model."),
        ({"model": "weights.gguf"}, "There is no file weights.gguf."),
    ],
)
def test_what_cannot_be_there_is_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(PodiumError, match=re.escape(said)):
        check_resources(**settings)


def test_a_directory_that_cannot_be_written_is_refused_and_not_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(PodiumError, match="file is a file, not a directory"):
        check_resources(out=tmp_path / "file")
    with pytest.raises(PodiumError, match="could not be written: Not a directory"):
        check_resources(out=tmp_path / "file/run")
    check_resources(out=tmp_path / "new/run")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)  # the superuser may write everywhere
    with pytest.raises(PodiumError, match=r"run cannot be written \(no permission\). Choose another place with --out."):
        check_resources(out=tmp_path / "new/run")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_nothing_is_built_where_the_run_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "build_run", lambda *_: pytest.fail("a run was built"))
    (tmp_path / "file").write_text("")
    with pytest.raises(PodiumError, match="is a file, not a directory"):
        train("grpo", world="echo", out=tmp_path / "file")
