"""Compare methods on the same tasks, with the same random numbers and the same budget of sampled tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from podium import worlds
from podium.core.errors import PodiumError, Unfinished
from podium.core.shares import scaled
from podium.evaluation.resample import student
from podium.method import DEFAULTS, Home, Method
from podium.methods import RECIPES, get
from podium.methods.catalogue import home_of
from podium.sessions.train import Progress, Result, configure, resume, train
from podium.store.run_directory import RunDirectory
from podium.strategies import Sample
from podium.training.config import Config
from podium.training.preflight import check_fit
from podium.training.resolve import POOL, updates_per_batch

__all__ = ["Comparison", "ComparisonRow", "compare"]


@dataclass(frozen=True)
class ComparisonRow:
    """One method over all seeds: final held-out pass@1, and its paired difference from the first method."""

    name: str
    finals: tuple[float, ...]  # one per seed
    differences: tuple[float, ...]
    tokens: tuple[int, ...]
    results: tuple[Result, ...]
    updates: int = 1  # optimiser steps per batch
    lr: float = 0.0

    @property
    def mean(self) -> float:
        return float(np.mean(self.finals))


@dataclass(frozen=True)
class Comparison:
    """The outcome of a comparison; `rows` in the order in which the methods were named."""

    path: Path
    rows: tuple[ComparisonRow, ...]
    settings: dict[str, Any]


RATES, DIFFERENCES = (0.0, 1.0), (-1.0, 1.0)  # where pass rates and their differences can lie


def interval(values: Sequence[float], bounds: tuple[float, float] = RATES) -> tuple[float, float]:
    """The 95 % confidence interval of the mean over seeds, by Student's t, within `bounds`; of one seed its value.

    Of two seeds it often covers all that is possible: two runs say little of a third.
    """
    x = np.asarray(values, dtype=float)
    if len(x) < 2:
        return float(x[0]), float(x[0])
    half = student(len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x))
    low, high = np.clip([x.mean() - half, x.mean() + half], *bounds)
    return float(low), float(high)


def comparison_text(values: Sequence[float], sign: str = "", bounds: tuple[float, float] = RATES) -> str:
    """The interval as text; a dash for one seed, which has none."""
    low, high = interval(values, bounds)
    return f"[{low:{sign}.3f}, {high:{sign}.3f}]" if len(values) > 1 else "–"


def compare(
    methods: Sequence[str | Method],
    *,
    seeds: int = 5,
    n: int = 8,
    out: str | Path = "runs/compare",
    progress: Callable[[str, int, Result], None] | None = None,
    watch: Callable[[str, int, Path], Progress] | None = None,
    only: int | None = None,
    **settings: Any,
) -> Comparison:
    """Train each method with each seed. The first one's sampled tokens are the budget of the others.

    All methods sample `n` rollouts per task, so that iteration t of seed s has the same tasks and the same random
    numbers in all of them until their policies differ; updates per batch and learning rates are their own. `progress`
    is called with each run when it is done, and what `watch` returns for a method, a seed and the run's directory after
    each iteration. A comparison that was interrupted continues when it is called again; `only` trains one of its seeds,
    for processes that share the work.
    """
    if len(methods) < 2:
        raise PodiumError("A comparison needs at least two methods.")
    if seeds < 1:
        raise PodiumError(f"seeds = {seeds}: a comparison needs at least one.")
    for name in {"seed", "token_budget"} & set(settings):
        raise PodiumError(f"A comparison sets {name!r} itself: `seeds` and the first method decide.")
    values = [_comparable(m if isinstance(m, Method) else get(m), n) for m in methods]
    if "world" not in settings:
        settings = _shared_home(values[0], settings)
    if "pool" not in settings and any(v.remembers_tasks for v in values):  # the same tasks for all
        tasks: Any = settings.get("tasks", DEFAULTS.tasks)
        settings["pool"] = POOL * tasks
    names = [v.name for v in values]
    if len(set(names)) < len(names):
        raise PodiumError(
            f"Two of the methods have the same name: {', '.join(names)}. Rename one: `name` in its YAML file, or "
            "method.replace(name=…)."
        )
    _check(values, settings)
    path = Path(out)
    iterations = int(settings.pop("iterations", 100))
    # Stages are as long for all, whatever limit a method has.
    values = [scaled(v, {"iterations": iterations}) for v in values]
    results: dict[str, list[Result]] = {name: [] for name in names}
    for seed in range(seeds) if only is None else (only,):
        budget: int | None = None
        for method in values:
            # A method that samples shorter answers gets more iterations out of the same tokens, within reason.
            limit = iterations if budget is None else 4 * iterations
            config = configure(method, seed=seed, iterations=limit, token_budget=budget, **settings)
            directory = path / re.sub(r"[^\w.-]+", "-", method.name) / f"seed-{seed}"
            started = (directory / "config.yaml").is_file()
            watcher = None if watch is None else watch(method.name, seed, directory)
            if started:
                result = resume(directory, config=config, progress=watcher)
            else:
                result = train(config, out=directory, progress=watcher)
            if not result.finished:
                stopped = Unfinished if result.preempted else PodiumError
                raise stopped(f"Stopped in {directory}. The same command goes on from there.")
            budget = budget or sum(line.get("tokens", 0) for line in result.metrics)
            results[method.name].append(result)
            if progress is not None:
                progress(method.name, seed, result)
    rows = tuple(_row(name, results[name], results[names[0]]) for name in names)
    comparison = Comparison(path, rows, {"iterations": iterations, "seeds": seeds, "n": n, **settings})
    _write_table(comparison)
    return comparison


def _shared_home(method: Method, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with the world, and the model, of the first method's home: all of them train there."""
    home = home_of(method.name) if method.name.partition("@")[0] in RECIPES else Home(level=2)
    of_world = {**home.world_settings, **(settings.get("world_settings") or {})}
    of_model = {"model": home.model} if home.model else {}
    return {**of_model, **settings, "world": home.world, "world_settings": of_world}


def _check(methods: Sequence[Method], settings: dict[str, Any]) -> None:
    """Refuse a method that cannot run on the world before any other is trained."""
    config = configure(methods[0], **settings)
    with closing(worlds.isolated(config.world, config.world_settings, isolation=config.isolation)) as world:
        for method in methods:
            check_fit(method, world, str(config.world))


def _comparable(method: Method, n: int) -> Method:
    """The method with `n` rollouts per task, where its strategy has such a setting, and of its protocol nothing that
    decides what is sampled: methods differ in their updates and learning rates."""

    def changed(plain: Method) -> Method:
        strategy = plain.rollout or Sample()
        if "n" in strategy.field_names():
            plain = plain.with_(rollout=strategy.replace(n=n))
        if plain.protocol is None:
            return plain
        sizes = dict.fromkeys(("tasks", "iterations", "max_tokens", "max_turns", "pool"))
        return plain.replace(protocol=plain.protocol.replace(**sizes))

    return method.each(changed)


def _row(name: str, results: Sequence[Result], base: Sequence[Result]) -> ComparisonRow:
    finals = [r.evaluations[-1]["eval.pass@1"] for r in results]
    against = [r.evaluations[-1]["eval.pass@1"] for r in base]
    tokens = [sum(line.get("tokens", 0) for line in r.metrics) for r in results]
    differences = [a - b for a, b in zip(finals, against, strict=True)]
    config = Config.of_run(RunDirectory(results[0].path), trust=True)
    updates, lr = updates_per_batch(config.method), config.optimizer.lr
    return ComparisonRow(name, tuple(finals), tuple(differences), tuple(tokens), tuple(results), updates, lr)


def _write_table(comparison: Comparison) -> None:
    rows = [
        {
            "method": r.name,
            "pass@1": r.mean,
            "interval": interval(r.finals) if len(r.finals) > 1 else None,
            "difference": float(np.mean(r.differences)),
            "difference_interval": interval(r.differences, DIFFERENCES) if len(r.finals) > 1 else None,
            "tokens": r.tokens,
            "updates": r.updates,
            "lr": r.lr,
        }
        for r in comparison.rows
    ]
    (comparison.path / "compare.json").write_text(json.dumps(rows, indent=1))
