"""The manifest of a checkpoint shows every kind of damage, and says which file it is in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from podium import __version__
from podium.core.errors import PodiumError
from podium.store.manifest import DamagedCheckpoint, check_manifest
from podium.store.run_directory import RunDirectory
from podium.store.sealed import seal
from podium.store.sound_checkpoint import newest_sound, set_aside


def fill(part: Path) -> None:
    (part / "policy").mkdir()
    (part / "policy/model.safetensors").write_bytes(b"weights")
    (part / "state.json").write_text('{"iteration": 5, "manifest": true}')


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return RunDirectory(tmp_path).write_checkpoint(5, fill, keep=9)


def test_it_lists_every_file_with_size_and_hash(checkpoint: Path) -> None:
    data = json.loads((checkpoint / "manifest.json").read_text())
    assert (data["format"], data["podium"], data["iteration"]) == (1, __version__, 5)
    digest = hashlib.sha256(b"weights").hexdigest()
    assert data["files"]["policy/model.safetensors"] == {"size": 7, "sha256": digest}
    assert set(data["files"]) == {"policy/model.safetensors", "state.json"}
    assert check_manifest(checkpoint)


def _renamed(checkpoint: Path) -> Path:
    return checkpoint.rename(checkpoint.with_name("iteration-000006"))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (
            lambda c: (c / "policy/model.safetensors").write_bytes(b"Weights"),
            "model.safetensors has other bytes than its",
        ),
        (lambda c: (c / "policy/model.safetensors").write_bytes(b"weight"), "has 6 bytes, 7 by its manifest"),
        (lambda c: (c / "policy/model.safetensors").unlink(), "policy/model.safetensors is missing"),
        (lambda c: (c / "policy/podium.safetensors").write_bytes(b""), "does not list policy/podium.safetensors"),
        (lambda c: (c / "manifest.json").unlink(), "manifest.json is missing"),
        (lambda c: (c / "manifest.json").write_text("[]"), "manifest.json: it must hold a JSON object"),
        (lambda c: (c / "manifest.json").write_bytes(b"\xff"), "manifest.json: not UTF-8 text"),
        (lambda c: (c / "manifest.json").write_text('{"files": {}}'), "manifest.json is not what was written"),
        (_renamed, "it holds iteration 5"),
    ],
)
def test_damage_is_named(checkpoint: Path, spoil: Callable[[Path], object], reason: str) -> None:
    spoil(checkpoint)
    (place,) = RunDirectory(checkpoint.parents[1]).checkpoints()
    with pytest.raises(DamagedCheckpoint, match=f"^Checkpoint {place.name} is damaged: .*{reason}"):
        check_manifest(place)


def test_a_changed_character_of_the_manifest_shows(checkpoint: Path) -> None:
    file = checkpoint / "manifest.json"
    file.write_text(file.read_text().replace('"iteration": 5', '"iteration": 6'))
    with pytest.raises(DamagedCheckpoint, match=r"other characters than its check says"):
        check_manifest(checkpoint)


def test_strays_that_nothing_reads_do_no_harm(checkpoint: Path) -> None:
    for name in (".DS_Store", "notes.txt", "policy/._model.safetensors"):
        (checkpoint / name).write_text("x")
    (checkpoint.parent / "iteration-abc").mkdir()
    (checkpoint.parent / ".DS_Store").write_text("x")
    (checkpoint.parent / "iteration-000050.bak").mkdir()
    assert RunDirectory(checkpoint.parents[1]).checkpoints() == [checkpoint]
    assert check_manifest(checkpoint)


def test_only_what_is_used_need_be_sound(checkpoint: Path) -> None:
    (checkpoint / "state.json").write_text("{}")
    assert check_manifest(checkpoint, "policy")
    with pytest.raises(DamagedCheckpoint):
        check_manifest(checkpoint)


def test_a_newer_format_is_no_damage(checkpoint: Path) -> None:
    (checkpoint / "manifest.json").write_text(seal({"format": 2, "podium": "9.0", "iteration": 5, "files": {}}))
    with pytest.raises(PodiumError, match=r"newer version of Podium \(9.0\)") as raised:
        check_manifest(checkpoint)
    assert not isinstance(raised.value, DamagedCheckpoint)


def test_the_newest_sound_one_is_taken_and_damaged_ones_stay(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    for iteration in (1, 2, 3):
        run.write_checkpoint(iteration, fill, keep=9)
    first, *others = run.checkpoints()
    for each in others:
        (each / "state.json").write_text("{}")
    _, sound = newest_sound(run.checkpoints(), check_manifest)
    assert sound.checkpoint == first
    assert [set_aside(error.directory) for error in sound.damaged] == [f"{c.name}.damaged" for c in reversed(others)]
    run.write_checkpoint(3, fill, keep=9)
    assert set_aside(run.checkpoints()[-1]) == "iteration-000003.damaged-2"
    (first / "state.json").write_text("{}")
    with pytest.raises(
        PodiumError, match=r"has no sound checkpoint. Checkpoint iteration-000001 is damaged.*train anew"
    ):
        newest_sound(run.checkpoints(), check_manifest)


def test_a_damaged_checkpoint_is_neither_deleted_nor_counted(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    for iteration in (1, 2, 3):
        run.write_checkpoint(iteration, fill, keep=9)
    (tmp_path / "checkpoints/iteration-000002/state.json").unlink()
    run.write_checkpoint(4, fill, keep=2)
    assert [int(c.name[-1]) for c in run.checkpoints()] == [2, 3, 4]
