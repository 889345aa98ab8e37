"""The manifest of a checkpoint: every file with its size and hash, written last and checked before anything is used.

The hash is SHA-256: processors compute it in hardware, twice as fast as BLAKE2b, and `sha256sum` checks it by hand.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podium import __version__
from podium.core.errors import PodiumError
from podium.store.files import atomic_text
from podium.store.json_lines import read_object
from podium.store.sealed import Unsealed, seal, unseal

__all__ = ["MANIFEST", "DamagedCheckpoint", "check_manifest", "is_checkpoint", "write_manifest"]

MANIFEST, STATE = "manifest.json", "state.json"
FORMAT = 1
NAME = re.compile(r"iteration-(\d{6,})")
READ = (".json", ".safetensors", ".yaml")  # files that are read: an unlisted one is as bad as one that was changed


class DamagedCheckpoint(PodiumError):
    """A checkpoint that cannot be used because it is not what was written."""

    def __init__(self, directory: Path, reason: str) -> None:
        super().__init__(f"Checkpoint {directory.name} is damaged: {reason.rstrip('.')}.")
        self.directory = directory


def is_checkpoint(path: Path) -> bool:
    """Whether a path has the name of a checkpoint."""
    return NAME.fullmatch(path.name) is not None


def write_manifest(directory: Path, iteration: int) -> None:
    """List the files of a checkpoint that is complete but for its manifest."""
    files = {
        str(file.relative_to(directory).as_posix()): {"size": file.stat().st_size, "sha256": _sha256(file)}
        for file in sorted(directory.rglob("*"))
        if file.is_file() and file != directory / MANIFEST
    }
    data = {"format": FORMAT, "podium": __version__, "iteration": iteration, "files": files}
    atomic_text(directory / MANIFEST, seal(data, indent=1) + "\n")


def check_manifest(directory: Path, under: str = "", *, hashes: bool = True) -> bool:
    """Compare a checkpoint's files with its manifest and raise `DamagedCheckpoint` where they differ. Returns False if
    there is none, as in checkpoints of earlier versions.

    `under` limits this to one file or folder. Without `hashes`, only the presence and size of files are compared.
    """
    if not directory.is_dir():
        raise DamagedCheckpoint(directory, "it is not a directory")
    if not (directory / MANIFEST).is_file():
        _check_unlisted(directory)
        return False
    listed = _read(directory)
    chosen = {name: entry for name, entry in listed.items() if not under or (name + "/").startswith(under + "/")}
    for name, entry in chosen.items():
        file = directory / name
        if not file.is_file():
            raise DamagedCheckpoint(directory, f"{name} is missing")
        if file.stat().st_size != entry["size"]:
            found, expected = f"{file.stat().st_size:,}", f"{entry['size']:,}"
            raise DamagedCheckpoint(directory, f"{name} has {found} bytes, {expected} by its manifest")
    for file in directory.rglob("*"):
        name = str(file.relative_to(directory).as_posix())
        if file.suffix in READ and not file.name.startswith(".") and name not in {*listed, MANIFEST}:
            raise DamagedCheckpoint(directory, f"its manifest does not list {name}")
    for name, entry in chosen.items() if hashes else ():
        if _sha256(directory / name) != entry["sha256"]:
            raise DamagedCheckpoint(directory, f"{name} has other bytes than its manifest says")
    return True


def _check_unlisted(directory: Path) -> None:
    """Refuse a checkpoint that has lost its manifest: its state says that it was written with one."""
    if not (directory / STATE).is_file():
        return  # a checkpoint of which only a model is left, or nothing that can be used
    try:
        lost = read_object(directory / STATE).get("manifest", False)
    except PodiumError as error:
        raise DamagedCheckpoint(directory, str(error)) from error
    if lost:
        raise DamagedCheckpoint(directory, f"{MANIFEST} is missing")


def _read(directory: Path) -> Mapping[str, Mapping[str, Any]]:
    """The entries of a manifest by the path of the file."""
    try:
        data, sealed = unseal((directory / MANIFEST).read_bytes())
    except (Unsealed, OSError) as error:
        raise DamagedCheckpoint(directory, f"{MANIFEST}: {error}") from error
    files = data.get("files")
    if not sealed or not isinstance(files, dict):
        raise DamagedCheckpoint(directory, f"{MANIFEST} is not what was written")
    if data["format"] > FORMAT:
        raise PodiumError(
            f"The checkpoint {directory} was written by a newer version of Podium ({data['podium']}): update Podium."
        )
    number = NAME.fullmatch(directory.name)
    if number is not None and data["iteration"] != int(number[1]):
        raise DamagedCheckpoint(directory, f"it holds iteration {data['iteration']}")
    return files


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
