"""Trackers: a run's metrics, by the names that metrics.jsonl has, to TensorBoard or Weights & Biases as well.

They have no influence on a run's numbers, and a run may be resumed with others. A tracker that fails is left out from
then on, with one line that says so, and the run continues.
"""

from __future__ import annotations

import importlib
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from podium.core import serial
from podium.core.errors import PodiumError, nearest
from podium.core.printable import printable
from podium.training.config import Config

__all__ = ["TRACKERS", "Trackers", "require"]


class Tracker(Protocol):
    def log(self, iteration: int, values: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files in RUN/tensorboard: `tensorboard --logdir RUN`."""

    def __init__(self, path: Path, config: Config, iteration: int) -> None:
        writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter
        # Discard what a killed process wrote after the checkpoint from which the run continues.
        self.writer = writer(str(path / "tensorboard"), purge_step=iteration + 1 if iteration else None)
        self.writer.add_text("config", f"```yaml\n{config.to_yaml()}\n```", iteration)

    def log(self, iteration: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, iteration)
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()


class WandB:
    """A run of Weights & Biases, kept in RUN/wandb; WANDB_PROJECT, WANDB_MODE=offline and its other settings apply."""

    def __init__(self, path: Path, config: Config, iteration: int) -> None:
        wandb = importlib.import_module("wandb")
        identifier = path / "wandb" / "podium-id"  # so that a resumed run is the same run there
        if not identifier.is_file():
            identifier.parent.mkdir(parents=True, exist_ok=True)
            identifier.write_text(secrets.token_hex(4))
        try:
            self.run = wandb.init(
                dir=str(path),
                id=identifier.read_text(),
                resume="allow" if iteration else None,
                name=path.name,
                config=serial.encode(config)["Config"],
                settings=wandb.Settings(silent=True, console="off"),
            )
        except Exception as error:
            reason = " ".join(str(error).split())
            raise PodiumError(f"wandb cannot start: {reason} Run `wandb login`, or set WANDB_MODE=offline.") from error

    def log(self, iteration: int, values: Mapping[str, float]) -> None:
        self.run.log(dict(values), step=iteration)

    def close(self) -> None:
        self.run.finish()


TRACKERS: dict[str, Callable[[Path, Config, int], Tracker]] = {"tensorboard": TensorBoard, "wandb": WandB}


def require(names: str | Sequence[str]) -> tuple[str, ...]:
    """The names without repetitions; refuses one that is unknown or whose package is not installed."""
    chosen = tuple(dict.fromkeys([names] if isinstance(names, str) else names))
    for name in chosen:
        if name not in TRACKERS:
            raise PodiumError(f"There is no tracker {name!r}. {nearest(name, TRACKERS)}")
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise PodiumError(f"--track {name} needs the package {name}: pip install 'podium-rl[track]'.") from error
    return chosen


class Trackers:
    """Called after each iteration with its metrics, like any `Progress`."""

    def __init__(self, names: Sequence[str], path: Path, config: Config, iteration: int = 0) -> None:
        self.open = {name: TRACKERS[name](path, config, iteration) for name in names}

    def __call__(self, run: object, line: Mapping[str, Any]) -> None:
        values = flat(line)
        self._call_each(lambda tracker: tracker.log(int(line["iteration"]), values))

    def close(self) -> None:
        self._call_each(lambda tracker: tracker.close())
        self.open = {}

    def _call_each(self, do: Callable[[Tracker], None]) -> None:
        for name, tracker in list(self.open.items()):
            try:
                do(tracker)
            except Exception as error:  # no failure of a tracker is worth a run
                del self.open[name]
                reason = " ".join(str(error).split()) or type(error).__name__
                print(f"The tracker {name} failed and is left out from here on: {printable(reason)}", file=sys.stderr)


def flat(line: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a line of metrics, nested ones by dotted names: `seconds.train`."""
    values: dict[str, float] = {}
    for name, value in line.items():
        if isinstance(value, Mapping):
            values |= {f"{name}.{k}": v for k, v in flat(value).items()}
        elif isinstance(value, (int, float)) and name != "iteration":
            values[name] = value
    return values
