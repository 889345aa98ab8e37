"""Trackers: a run's metrics, by the names that metrics.jsonl has, to TensorBoard, Weights & Biases, trackio or MLflow.

They have no influence on a run's numbers, and a run may be resumed with others. A tracker that fails is left out from
then on, with one line that says so, and the run continues.
"""

from __future__ import annotations

import importlib
import os
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


EXTRA = ("tensorboard", "wandb")  # the packages of the extra `track`
HINTS = {  # what to do about a tracker that cannot start
    "wandb": " Run `wandb login`, or set WANDB_MODE=offline.",
    "mlflow": " Install mlflow, not only mlflow-skinny, or set MLFLOW_TRACKING_URI.",
}
LONGEST_PARAMETER = 500  # characters of a setting that MLflow takes


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


def _own_id(folder: Path) -> str:
    """An identifier that a run keeps, so that it is the same one to a tracker when it is resumed."""
    file = folder / "podium-id"
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(secrets.token_hex(4))
    return file.read_text()


class WandB:
    """A run of Weights & Biases, kept in RUN/wandb; WANDB_PROJECT, WANDB_MODE=offline and its other settings apply."""

    def __init__(self, path: Path, config: Config, iteration: int) -> None:
        wandb = importlib.import_module("wandb")
        self.run = wandb.init(
            dir=str(path),
            id=_own_id(path / "wandb"),
            resume="allow" if iteration else None,
            name=path.name,
            config=serial.encode(config)["Config"],
            settings=wandb.Settings(silent=True, console="off"),
        )

    def log(self, iteration: int, values: Mapping[str, float]) -> None:
        self.run.log(dict(values), step=iteration)

    def close(self) -> None:
        self.run.finish()


class Trackio:
    """A run of trackio, in its own store (TRACKIO_DIR; `trackio show` opens it); TRACKIO_PROJECT names the project."""

    def __init__(self, path: Path, config: Config, iteration: int) -> None:
        trackio = importlib.import_module("trackio")
        self.run = trackio.init(
            project=os.environ.get("TRACKIO_PROJECT", "podium"),
            name=f"{path.name}-{_own_id(path / 'trackio')}",
            config=serial.encode(config)["Config"],
            resume="allow",
            embed=False,
        )

    def log(self, iteration: int, values: Mapping[str, float]) -> None:
        self.run.log(dict(values), step=iteration)

    def close(self) -> None:
        self.run.finish()


class MLflow:
    """A run of MLflow, at MLFLOW_TRACKING_URI, or in RUN/mlflow; MLFLOW_EXPERIMENT_NAME names the experiment."""

    def __init__(self, path: Path, config: Config, iteration: int) -> None:
        mlflow = importlib.import_module("mlflow")
        folder = path / "mlflow"
        folder.mkdir(parents=True, exist_ok=True)
        address = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder.resolve() / 'mlflow.db'}"
        self.client = mlflow.MlflowClient(tracking_uri=address, registry_uri=address)
        known = folder / "podium-run"
        if iteration and known.is_file():
            self.run = known.read_text()
            return
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "podium")
        experiment = self.client.get_experiment_by_name(name)
        number = self.client.create_experiment(name) if experiment is None else experiment.experiment_id
        self.run = self.client.create_run(number, run_name=path.name).info.run_id
        known.write_text(self.run)
        for setting, value in serial.encode(config)["Config"].items():
            self.client.log_param(self.run, setting, str(value)[:LONGEST_PARAMETER])

    def log(self, iteration: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.client.log_metric(self.run, name.replace("@", "_at_"), value, step=iteration)

    def close(self) -> None:
        self.client.set_terminated(self.run)


TRACKERS: dict[str, Callable[[Path, Config, int], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": WandB,
    "trackio": Trackio,
    "mlflow": MLflow,
}


def require(names: str | Sequence[str]) -> tuple[str, ...]:
    """The names without repetitions; refuses one that is unknown or whose package is not installed."""
    chosen = tuple(dict.fromkeys([names] if isinstance(names, str) else names))
    for name in chosen:
        if name not in TRACKERS:
            raise PodiumError(f"There is no tracker {name!r}. {nearest(name, TRACKERS)}")
        try:
            importlib.import_module(name)
        except ImportError as error:
            extra = "podium-rl[track]" if name in EXTRA else name
            raise PodiumError(f"--track {name} needs the package {name}: pip install '{extra}'.") from error
    return chosen


class Trackers:
    """Called after each iteration with its metrics, like any `Progress`."""

    def __init__(self, names: Sequence[str], path: Path, config: Config, iteration: int = 0) -> None:
        self.open = {name: _started(name, path, config, iteration) for name in names}

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


def _started(name: str, path: Path, config: Config, iteration: int) -> Tracker:
    try:
        return TRACKERS[name](path, config, iteration)
    except PodiumError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise PodiumError(f"{name} cannot start: {reason}{HINTS.get(name, '')}") from error


def flat(line: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a line of metrics, nested ones by dotted names: `seconds.train`."""
    values: dict[str, float] = {}
    for name, value in line.items():
        if isinstance(value, Mapping):
            values |= {f"{name}.{k}": v for k, v in flat(value).items()}
        elif isinstance(value, (int, float)) and name != "iteration":
            values[name] = value
    return values
