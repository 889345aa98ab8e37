"""Evaluating a run or a model from start to end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from podium import policy as policies
from podium import worlds
from podium.core.errors import PodiumError
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
    seed: int = 0,
    temperature: float = 1.0,
    max_tokens: int | None = None,
    device: str = "cpu",
    **world_settings: Any,
) -> dict[str, Measure]:
    """Measures of a run's last checkpoint, or of a model, on held-out tasks (a run's own world by default)."""
    model, settings = str(target), dict(world_settings)
    if (Path(target) / "config.yaml").is_file():
        directory = RunDirectory(target)
        config = Config.from_yaml(directory.read_config())
        if not directory.checkpoints():
            raise PodiumError(f"The run {target} has no checkpoint yet.")
        model = str(directory.checkpoints()[-1] / "policy")
        if world is None:
            world, settings = config.world, {**(config.world_settings or {}), **settings}
        max_tokens = max_tokens or config.max_tokens
    place = worlds.get(world or "countdown", **settings)
    policy = policies.load(model, device=device)
    driver = Driver(LocalSampler(policy), place, follow_up=policy.follow_up)
    groups = held_out(
        driver,
        tasks=tasks,
        samples=max(ks),
        max_tokens=max_tokens or place.max_tokens,
        seed=seed,
        temperature=temperature,
    )
    return measure(groups, ks)
