"""Resuming from the newest sound checkpoint of a run, with a warning for everything that is damaged or lost."""

from __future__ import annotations

import math
import warnings

from podium.core.errors import PodiumError
from podium.store.manifest import MANIFEST
from podium.store.run_directory import RunDirectory
from podium.store.sound_checkpoint import newest_sound, set_aside
from podium.training.run import Run

__all__ = ["recover"]


def recover(run: Run, directory: RunDirectory) -> None:
    """Restore a run from its newest sound checkpoint, and cut its files back to that iteration. Damaged checkpoints and
    lines of metrics are set aside. Without any checkpoint the run starts again, if none can have been written yet."""
    done = max((line["iteration"] for line in directory.metrics()), default=0)
    checkpoints = directory.checkpoints()
    if checkpoints:
        _restore(run, directory, done)
    elif done > min(run.config.checkpoint_every or math.inf, run.config.iterations):
        raise PodiumError(
            f"{directory.path} has metrics up to iteration {done} but no checkpoint. Put its checkpoints back, or "
            f"train anew: podium train --config {directory.path / 'config.yaml'} --out DIRECTORY"
        )
    elif done:
        warnings.warn(
            f"{directory.path} has no checkpoint yet: training starts again from the beginning.", stacklevel=2
        )
    note = directory.rewind(run.iteration or -1, measured=run.pending is None)
    if note:
        warnings.warn(note, stacklevel=2)
    run.tokens = run.tokens or sum(line.get("tokens", 0) for line in directory.metrics())


def _restore(run: Run, directory: RunDirectory, done: int) -> None:
    checkpoints = directory.checkpoints()
    _, sound = newest_sound(checkpoints, run.restore)
    if sound.damaged:
        names = [set_aside(error.directory) for error in sound.damaged]
        # The newest checkpoint says how far the run came where its metrics do not.
        again = max(done, int(checkpoints[-1].name.partition("-")[2])) - run.iteration
        reasons = " ".join(map(str, sound.damaged))
        count = "1 iteration is" if again == 1 else f"{again} iterations are"
        warnings.warn(
            f"{reasons} Resuming from iteration {run.iteration}: {count} trained again. What is damaged was renamed to "
            f"{', '.join(names)}.",
            stacklevel=2,
        )
    if not (sound.checkpoint / MANIFEST).is_file():
        warnings.warn(
            f"Checkpoint {sound.checkpoint.name} was written by an earlier version of Podium, without a manifest: only "
            "damage that keeps it from being read can be seen.",
            stacklevel=2,
        )
