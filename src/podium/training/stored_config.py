"""The configuration of a run, compared with the copies that its checkpoints hold."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

from podium.core.errors import PodiumError
from podium.core.named_code import UntrustedCode
from podium.core.shares import scaled
from podium.store.manifest import check_manifest
from podium.store.run_directory import RunDirectory
from podium.training.config import Config, Optimizer

__all__ = ["StoredConfig", "differing_settings", "stored_config"]

# Settings that may be changed in a run's config.yaml: they say where, how long and how often, not what is learnt.
CHANGEABLE = (
    *("device", "iterations", "token_budget", "checkpoint_every", "keep_checkpoints", "keep_rollouts_gb"),
    *("keep_examples", "shard", "grace_s", "act_limit_s", "isolation"),
)
# Those that a command may set for itself, so that a difference is nobody's edit.
PER_COMMAND = ("device", "grace_s", "keep_rollouts_gb")


class StoredConfig(NamedTuple):
    """The configuration of a run, and where it was read."""

    config: Config
    text: str  # the YAML that it was read from
    damaged: bool = False  # whether config.yaml cannot be read, so that this is a checkpoint's copy


def stored_config(directory: RunDirectory, *, trust: bool = False, leave_out: tuple[str, ...] = ()) -> StoredConfig:
    """The configuration of a run; `trust` and `leave_out` as in `Config.from_yaml`.

    In place of a config.yaml that cannot be read, the newest copy in a checkpoint is taken; one that would train
    something else than the checkpoints have is refused.
    """
    file, copy = directory.path / "config.yaml", _copy(directory)

    def of_copy(copy: Path) -> Config:
        return Config.from_yaml(copy.read_text("utf-8"), trust=trust, run=directory.path, leave_out=leave_out)

    try:
        config = Config.of_run(directory, trust=trust, leave_out=leave_out)
    except UntrustedCode:
        raise
    except PodiumError as problem:
        if copy is None or not file.is_file():
            raise
        warnings.warn(f"{str(problem).rstrip('.')}. The copy in {copy.parent} is used instead.", stacklevel=2)
        return StoredConfig(of_copy(copy), copy.read_text("utf-8"), damaged=True)
    if copy is not None and copy.read_bytes() != file.read_bytes():
        _compare(config, of_copy(copy), file, copy)
    return StoredConfig(config, directory.read_config())


def _compare(config: Config, other: Config, file: Path, copy: Path) -> None:
    """Refuse or report the settings in which config.yaml differs from a checkpoint's copy."""
    changed = differing_settings(config, other)
    refused = [name for name in changed if name not in CHANGEABLE]
    if refused:
        raise PodiumError(
            f"{file} is not the one that the checkpoints were made with: {refused[0]} differs. Put back {copy}, or "
            "start a new run (--out)."
        )
    for name in changed:
        if name not in PER_COMMAND:
            values = f"{getattr(other, name)} in the last checkpoint and is {getattr(config, name)} now"
            warnings.warn(f"{file}: {name} was {values}.", stacklevel=3)


def differing_settings(config: Config, stored: Config) -> list[str]:
    """The settings in which a configuration differs from the complete one of a run; what it leaves open does not."""
    totals = {"iterations": stored.iterations, "max_tokens": stored.max_tokens}
    if None not in totals.values():
        config = config.replace(method=scaled(config.method, totals))
    return [name for name in Config.field_names() if _differ(getattr(config, name), getattr(stored, name))]


def _differ(mine: Any, other: Any) -> bool:
    """Whether a setting has changed. What an earlier version left open (None), its checkpoints may have filled in."""
    if isinstance(mine, Optimizer) and isinstance(other, Optimizer):
        return any(_differ(mine.settings()[name], value) for name, value in other.settings().items())
    return mine is not None and mine != other


def _copy(directory: RunDirectory) -> Path | None:
    """The newest sound copy of the configuration in a checkpoint."""
    for checkpoint in reversed(directory.checkpoints()):
        file = checkpoint / "config.yaml"
        try:
            if check_manifest(checkpoint, file.name) and file.is_file():
                return file
        except PodiumError:
            continue
    return None
