"""Early checks: settings that cannot work are refused before a model is loaded. Importing this needs no torch.

A run opens its world next, and asks `check_fit` whether its method can work there; only then are models loaded.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from podium.core.errors import PodiumError
from podium.store.files import check_writable

if TYPE_CHECKING:
    from podium.core.facts import RunFacts
    from podium.method import Method
    from podium.protocols.world import World

__all__ = ["check_fit", "check_fresh", "check_resources", "columns_of"]

DEVICE = re.compile(r"(cpu|cuda)(:\d+)?")
GPU_DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # of NVIDIA, of AMD, and of either under Windows' Linux
HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


def check_resources(*, out: Path | str | None = None, device: str | None = None, model: str | None = None) -> None:
    """Refuse a directory that cannot be written, a device that does not exist, and a model path that is not there."""
    if out is not None:
        check_writable(Path(out))
    if device is not None:
        _check_device(device)
    if model is not None:
        _check_model(model)


def check_fresh(path: Path) -> None:
    """Refuse a directory that holds a run already: a new one would mix with it."""
    if (path / "metrics.jsonl").exists() or any((path / "checkpoints").glob("iteration-*")):
        raise PodiumError(
            f"{path} already holds a run. Resume it (podium train --resume {path}) or choose another --out."
        )


def _check_device(name: str) -> None:
    """Refuse what is no device, and a GPU on a machine that plainly has none: torch need not be asked for that."""
    if DEVICE.fullmatch(name) is None:
        raise PodiumError(f"There is no device {name!r}: use cpu, cuda or cuda:N.")
    if name.startswith("cuda") and sys.platform == "linux" and not any(map(os.path.exists, GPU_DRIVERS)):
        raise PodiumError(f"device = {name!r}: this machine has no GPU driver; use device='cpu'.")


def check_fit(method: Method, world: World, name: str, facts: RunFacts | None = None) -> list[str]:
    """Refuse a method that cannot work on a world. Returns warnings: with the `facts` of a run, also of what cannot act
    in it."""
    findings = method.check(columns_of(world), facts=facts)
    errors = [finding.message for finding in findings if finding.kind == "error"]
    errors += _unseated(method, world)
    if errors:
        raise PodiumError(f"{method.name} cannot run on {name}: {' '.join([*errors, *_at_home(method)])}")
    return [str(finding) for finding in findings]


def _at_home(method: Method) -> list[str]:
    """Where a method of the catalogue trains unless a world is named."""
    from podium.methods.catalogue import RECIPES, home_of

    if method.name.partition("@")[0] not in RECIPES:
        return []
    home = home_of(method.name)
    settings = ", ".join(f"{name}={value}" for name, value in home.world_settings.items())
    return [f"Without a world of your choice it trains on {home.world}{f' ({settings})' if settings else ''}."]


def columns_of(world: World) -> tuple[str, ...]:
    """The columns that rollouts have in a world: those that it writes, and in one of several agents who wrote what."""
    if not world.agents:
        return tuple(world.provides)
    earned = (f"rollout.reward.{agent}" for agent in world.agents)
    return (*world.provides, "turn.agent", "turn.role", "turn.reward", "turn.by.policy", "rollout.idle", *earned)


def _unseated(method: Method, world: World) -> list[str]:
    """Why the seats of the method's strategies do not fit the agents of the world."""
    seats = [seat for leaf in method.leaves() if leaf.rollout is not None for seat in leaf.rollout.seats]
    names = ", ".join(world.agents) or "it has one alone, without a name"
    unknown = dict.fromkeys(seat.agent for seat in seats if seat.agent not in world.agents)
    return [f"A seat is for the agent {agent!r}, whom the world does not have: {names}." for agent in unknown]


def _check_model(name: str) -> None:
    """Refuse what is plainly a path and is not there. Whether a directory holds a model shows when it is loaded."""
    path = Path(name).expanduser()
    if name.startswith("podium/") or path.exists():
        return
    if path.suffix == ".gguf":
        raise PodiumError(f"There is no file {path}.")
    if not HUB_NAME.fullmatch(name) or (path.parent != Path() and path.parent.is_dir()):
        raise PodiumError(f"There is no model directory {name}.")
