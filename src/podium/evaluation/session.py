"""Evaluating a run or a model from start to end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from podium import policy as policies
from podium import worlds
from podium.core.errors import PodiumError, nearest
from podium.evaluation.measure import Measure, held_out, measure
from podium.sampler.local import LocalSampler
from podium.store.run import RunDirectory
from podium.training.config import Config
from podium.training.driver import Driver

__all__ = ["evaluate"]


def evaluate(
    target: str | Path,
    *,
    world: str | None = None,
    ks: Sequence[int] = (1, 8),
    tasks: int = 128,
    samples: int | None = None,
    seed: int = 0,
    temperature: float = 1.0,
    max_tokens: int | None = None,
    device: str = "cpu",
    **world_settings: Any,
) -> dict[str, Measure]:
    """Measures of a run's last checkpoint, or of a model, on held-out tasks (a run's own world by default).

    Each task gets `samples` answers, as many as the largest of `ks` by default.
    """
    wanted = max(ks, default=1) if samples is None else samples
    _check_counts(ks, tasks, wanted)
    model, settings, limit_s = str(target), dict(world_settings), 10.0
    if (Path(target) / "config.yaml").is_file():
        directory = RunDirectory(target)
        config = Config.from_yaml(directory.read_config())
        if not directory.checkpoints():
            raise PodiumError(f"The run {target} has no checkpoint yet.")
        model = str(directory.checkpoints()[-1] / "policy")
        if world is None:
            world, settings = config.world, {**(config.world_settings or {}), **settings}
        max_tokens, limit_s = max_tokens or config.max_tokens, config.act_limit_s
    elif world is None:
        _check_there(Path(target))
        raise PodiumError(f"{target} is a model and has no world of its own: name one with --world.")
    place = worlds.get(world, **settings)
    _check_there(Path(target))
    policy = policies.load(model, device=device)
    driver = Driver(LocalSampler(policy), place, follow_up=policy.follow_up, act_limit_s=limit_s)
    groups = held_out(
        driver,
        tasks=tasks,
        samples=wanted,
        max_tokens=max_tokens or place.max_tokens,
        seed=seed,
        temperature=temperature,
    )
    return measure(groups, ks)


def _check_counts(ks: Sequence[int], tasks: int, samples: int) -> None:
    for name, value in (("tasks", tasks), *(("k", k) for k in ks), ("samples", samples)):
        if value < 1:
            raise PodiumError(f"{name} = {value} must be at least 1.")
    for k in ks:
        if k > samples:
            raise PodiumError(f"pass@{k} needs at least {k} samples a task, not {samples}.")


def _check_there(path: Path) -> None:
    """Refuse what is plainly a place here, and not there, without asking the hub for it; and a folder of neither."""
    if path.is_dir() and not any((path / name).is_file() for name in ("config.yaml", "config.json")):
        raise PodiumError(f"{path} is neither a run (it has no config.yaml) nor a model (it has no config.json).")
    if not path.exists() and path.parent != Path() and path.parent.is_dir():
        beside = [str(p) for p in path.parent.iterdir() if p.is_dir()]
        raise PodiumError(f"There is no run or model {path}. {nearest(str(path), beside)}")
