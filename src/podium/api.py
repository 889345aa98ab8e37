"""`podium.train` and `podium.resume` as scripts and notebooks call them: with typed arguments, and with progress shown.

The command line, comparisons and labs call `podium.sessions.train` directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from podium.report.live import Live
from podium.sessions import train as session
from podium.sessions.train import Progress, Result

if TYPE_CHECKING:
    from podium.method import Method
    from podium.training.config import Config
    from podium.worlds import World

__all__ = ["resume", "train"]

RewardFunction = Callable[..., Any] | str
Rewards = RewardFunction | tuple[RewardFunction, float] | Sequence[RewardFunction | tuple[RewardFunction, float]]


def train(
    method: str | Method | Config = "grpo",
    *,
    world: str | World | None = None,
    level: int | None = None,
    data: str | Path | None = None,
    reward: Rewards | None = None,
    model: str | Path | None = None,
    iterations: int | None = None,
    tasks: int | None = None,
    max_tokens: int | None = None,
    lr: float | None = None,
    lora: int | None = None,
    seed: int | None = None,
    device: str | None = None,
    out: str | Path | None = None,
    track: str | Sequence[str] = (),
    progress: bool | Progress = True,
    **settings: Any,
) -> Result:
    """Train a model with a method, into a run directory. Everything has a default.

    Args:
        method: A slug of the catalogue, `slug@preset`, a combination `A+B`, a `Method`, or a whole `Config`.
        world: The tasks: `sums`, `gym:NAME`, `my_file.py:MyWorld`, or a `World`. By default where the method is at
            home.
        level: The difficulty of the world's tasks.
        data: Your own questions instead of a world: a file, a saved data set, or a name of the hub.
        reward: Your own reward function in place of the world's verdict, by itself or as `my_file.py:function`; with a
            weight as `(function, 0.2)`; or a list of these.
        model: `podium/tiny`, a Hugging Face directory or name, a GGUF file, or the directory of a run.
        iterations: Iterations of the training loop.
        tasks: Tasks per iteration.
        max_tokens: Tokens of an answer, or of a turn.
        lr: The learning rate.
        lora: The rank of adapters; by default all weights are trained.
        seed: The seed of all random numbers.
        device: `cpu`, `cuda` or `cuda:N`.
        out: The directory of the run; by default `runs/METHOD-WORLD-TIME`.
        track: Also log to `tensorboard`, `wandb`, `trackio` or `mlflow`.
        progress: Whether progress is shown on standard error; or a function that gets the run and each iteration's
            metrics.
        **settings: Any other setting of the run, of its optimiser, or of its world.

    Returns:
        The run's directory, its metrics, and whether it has finished.
    """
    named: dict[str, Any] = {
        **{"world": world, "level": level, "data": data, "reward": reward, "iterations": iterations, "tasks": tasks},
        **{"max_tokens": max_tokens, "lr": lr, "lora": lora, "seed": seed, "device": device},
        "model": None if model is None else str(model),
    }
    chosen = {name: value for name, value in named.items() if value is not None} | settings
    return _watched(progress, lambda **watch: session.train(method, out=out, track=track, **watch, **chosen))


def resume(
    path: str | Path,
    *,
    iterations: int | None = None,
    device: str | None = None,
    grace_s: float | None = None,
    track: str | Sequence[str] = (),
    trust: bool = False,
    progress: bool | Progress = True,
) -> Result:
    """Continue a run from its newest sound checkpoint; on a CPU bit by bit.

    Args:
        path: The directory of the run.
        iterations: How many it is to have in all, if more than before.
        device: Where to go on, if elsewhere.
        grace_s: Seconds to end an iteration after SIGTERM or SIGUSR1.
        track: Trackers, as for `train`.
        trust: Whether code that the run names may be outside the current project.
        progress: As for `train`.
    """
    how: dict[str, Any] = {"iterations": iterations, "device": device, "grace_s": grace_s}
    return _watched(progress, lambda **watch: session.resume(path, track=track, trust=trust, **how, **watch))


def _watched(progress: bool | Progress, do: Callable[..., Result]) -> Result:
    """What is done, with its progress shown."""
    if progress is True:
        with Live(Console(stderr=True)) as live:
            return do(progress=live, tell=live.tell)
    return do() if progress is False else do(progress=progress)
