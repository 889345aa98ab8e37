"""Runs of which somebody else has written every file: their configuration is changed, and still fits all others."""

from __future__ import annotations

import shutil
from pathlib import Path

from podium.store.manifest import MANIFEST, write_manifest

__all__ = ["replace_config"]


def replace_config(run: Path, text: str) -> None:
    """Give a run another configuration, with the copies in its checkpoints and their manifests."""
    file = run / "config.yaml"
    file.write_text(text)
    for checkpoint in (run / "checkpoints").glob("*"):
        shutil.copy(file, checkpoint)
        (checkpoint / MANIFEST).unlink()
        write_manifest(checkpoint, int(checkpoint.name.partition("-")[2]))
