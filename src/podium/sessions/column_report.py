"""How success on held-out tasks depends on a column: gaps of any run, and information about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from podium.evaluation.column_gaps import ColumnGaps, Dependence, column_gaps, dependence
from podium.protocols.world import World
from podium.sessions.evaluate import EvaluationSetting

__all__ = ["report_dependence", "report_gaps"]


def report_gaps(target: str | Path, column: str, **settings: Any) -> ColumnGaps:
    """The success rate of a run or a model for each value of a column, such as `domain`, `level` or `length`. Further
    arguments are those of `podium.sessions.evaluate.evaluate`."""
    return column_gaps(_sampled(target, **settings), column)


def report_dependence(target: str | Path, column: str, **settings: Any) -> Dependence:
    """What success tells about a column, overall and within domains."""
    return dependence(_sampled(target, **settings), column)


def _sampled(
    target: str | Path,
    *,
    world: str | World | None = None,
    tasks: int = 128,
    samples: int = 8,
    seed: int = 0,
    temperature: float = 1.0,
    max_tokens: int | None = None,
    device: str = "cpu",
    trust: bool = False,
    **world_settings: Any,
) -> Any:
    setting = EvaluationSetting.of(target, world, world_settings, max_tokens, trust)
    return setting.sample(target, device, tasks=tasks, samples=samples, seed=seed, temperature=temperature)
