"""Finding the newest checkpoint that is sound, and setting damaged ones aside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from podium.core.errors import PodiumError
from podium.store.files import explained
from podium.store.manifest import DamagedCheckpoint

__all__ = ["Sound", "newest_sound", "set_aside"]

T = TypeVar("T")


class Sound(NamedTuple):
    """A sound checkpoint, and the newer ones that are damaged."""

    checkpoint: Path
    damaged: tuple[DamagedCheckpoint, ...]


def newest_sound(checkpoints: Sequence[Path], use: Callable[[Path], T]) -> tuple[T, Sound]:
    """What `use` makes of the newest checkpoint for which it does not raise `DamagedCheckpoint`."""
    damaged: list[DamagedCheckpoint] = []
    for checkpoint in reversed(checkpoints):
        try:
            return use(checkpoint), Sound(checkpoint, tuple(damaged))
        except DamagedCheckpoint as error:
            damaged.append(error)
    run = checkpoints[-1].parent.parent
    reasons = " ".join(map(str, damaged))
    raise PodiumError(
        f"{run} has no sound checkpoint. {reasons} Put one back from a copy, or train anew: "
        f"podium train --config {run / 'config.yaml'} --out DIRECTORY"
    ) from damaged[-1]


def set_aside(checkpoint: Path) -> str:
    """Rename a damaged checkpoint, so that it stays but is neither used nor counted; returns its new name."""
    number, name = 1, f"{checkpoint.name}.damaged"
    while (target := checkpoint.with_name(name)).exists():
        number += 1
        name = f"{checkpoint.name}.damaged-{number}"
    with explained(target):
        checkpoint.rename(target)
    return name
