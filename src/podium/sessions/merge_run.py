"""Merging what a run has learnt back into the model that it started from."""

from __future__ import annotations

from pathlib import Path

from podium import policy as policies
from podium.core.errors import PodiumError
from podium.policy.model.merge import merge_weights
from podium.store.run_directory import RunDirectory
from podium.store.sound_checkpoint import newest_sound
from podium.training.stored_config import stored_config

__all__ = ["merge_run"]


def merge_run(run: str | Path, out: str | Path, *, keep: float = 0.25, scale: float = 0.7) -> Path:
    """Write the run's base model with the `keep` share of its weights that the run has changed most, times `scale`.

    The weights are those of the last sound checkpoint; `out` can then be named as a model. No code that the run's
    configuration names is executed.
    """
    if not 0 < keep <= 1:
        raise PodiumError(f"keep = {keep} is a share of the weights, above 0 and at most 1.")
    path = Path(out)
    if path.exists():
        raise PodiumError(f"{path} exists already: choose another directory.")
    directory = RunDirectory(Path(run))
    checkpoints = directory.checkpoints()
    if not checkpoints:
        raise PodiumError(f"{run} has no checkpoint: give the directory of a run.")
    base = policies.load(stored_config(directory, leave_out=("method", "world")).config.model)
    tuned, _ = newest_sound(checkpoints, lambda checkpoint: policies.load(str(checkpoint / "policy")))
    base.model.load_state_dict(merge_weights(base.model.state_dict(), tuned.model.state_dict(), keep, scale))
    base.save(path)
    return path
