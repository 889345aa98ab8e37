"""Early checks: settings that cannot work are refused before a model is loaded. Importing this needs no torch.

`check_settings` takes what was typed, and costs nothing; `check_config` also opens the world, where that is cheap;
`check_fit` asks whether a method can work on a world.
"""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from podium.core.errors import PodiumError
from podium.store.files import check_writable

if TYPE_CHECKING:
    from podium.method import Method
    from podium.protocols.world import World
    from podium.training.config import Config

__all__ = ["check_config", "check_fit", "check_settings"]

DEVICE = re.compile(r"(cpu|cuda)(:\d+)?")
HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


def check_settings(*, out: Path | str | None = None, device: str | None = None, model: str | None = None) -> None:
    """Refuse a directory that cannot be written, a device that does not exist, and a model path that is not there."""
    if out is not None:
        check_writable(Path(out))
    if device is not None and DEVICE.fullmatch(device) is None:
        raise PodiumError(f"There is no device {device!r}: use cpu, cuda or cuda:N.")
    if model is not None:
        _check_model(model)


def check_config(config: Config, out: Path | str | None = None) -> None:
    """`check_settings` of a configuration, and whether its world can be opened where that is cheap: an embedded one, or
    a file of questions."""
    check_settings(out=out, device=config.device, model=config.model)
    if isinstance(config.world, str) and _cheap(config.world):
        from podium import worlds

        with closing(worlds.get(config.world, **(config.world_settings or {}))) as world:
            check_fit(config.method, world, config.world)


def check_fit(method: Method, world: World, name: str) -> None:
    """Refuse a method that cannot work on a world."""
    errors = [finding.message for finding in method.check(world.provides) if finding.kind == "error"]
    if errors:
        raise PodiumError(f"{method.name} cannot run on {name}: {' '.join(errors)}")


def _check_model(name: str) -> None:
    """Refuse what is plainly a path and is not there. Whether a directory holds a model shows when it is loaded."""
    path = Path(name).expanduser()
    if name.startswith("podium/") or path.exists():
        return
    if path.suffix == ".gguf":
        raise PodiumError(f"There is no file {path}.")
    if not HUB_NAME.fullmatch(name) or (path.parent != Path() and path.parent.is_dir()):
        raise PodiumError(f"There is no model directory {name}.")


def _cheap(world: str) -> bool:
    """Whether opening this world starts no other program and runs no user code."""
    from podium import worlds

    return world in worlds.EMBEDDED or world.startswith("jsonl:")
