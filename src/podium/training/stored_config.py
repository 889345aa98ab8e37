"""The configuration of a run, compared with the copies that its checkpoints hold."""

from __future__ import annotations

import warnings
from pathlib import Path

from podium.core.errors import PodiumError
from podium.store.manifest import check_manifest
from podium.store.run_directory import RunDirectory
from podium.training.config import Config

__all__ = ["mend_config", "stored_config"]

# Settings that may be changed in a run's config.yaml: they say where, how long and how often, not what is learnt.
CHANGEABLE = ("device", "iterations", "token_budget", "checkpoint_every", "keep_checkpoints")


def stored_config(directory: RunDirectory) -> Config:
    """What a run was configured with. A config.yaml that cannot be read is replaced by the newest checkpoint's copy;
    one that would train something else than its checkpoints have is refused."""
    copy = _copy(directory)
    try:
        config = Config.of_run(directory)
    except PodiumError as problem:
        if copy is None or not (directory.path / "config.yaml").exists():
            raise
        warnings.warn(f"{_sentence(problem)} The copy in {copy[0]} is used instead.", stacklevel=2)
        return copy[1]
    if copy is None:
        return config
    place, other = copy
    changed = [name for name in Config.field_names() if getattr(config, name) != getattr(other, name)]
    refused = [name for name in changed if name not in CHANGEABLE]
    if refused:
        raise PodiumError(
            f"{directory.path / 'config.yaml'} is not the one that the checkpoints were made with: {refused[0]} "
            f"differs. Put back {place}, or start a new run (--out)."
        )
    for name in changed:
        if name != "device":
            values = f"{getattr(other, name)} in the last checkpoint and is {getattr(config, name)} now"
            warnings.warn(f"{directory.path / 'config.yaml'}: {name} was {values}.", stacklevel=2)
    return config


def mend_config(directory: RunDirectory, config: Config) -> None:
    """Write a config.yaml that could not be read anew; the caller holds the lock."""
    try:
        Config.of_run(directory)
    except PodiumError:
        directory.write_config(config.to_yaml())


def _copy(directory: RunDirectory) -> tuple[Path, Config] | None:
    """The newest sound copy of the configuration in a checkpoint."""
    for checkpoint in reversed(directory.checkpoints()):
        file = checkpoint / "config.yaml"
        try:
            if check_manifest(checkpoint, file.name) and file.is_file():
                return file, Config.from_yaml(file.read_text("utf-8"))
        except PodiumError:
            continue
    return None


def _sentence(problem: PodiumError) -> str:
    return f"{str(problem).rstrip('.')}."
