"""Group 3: degenerate and extreme input gives finite numbers, or a clear refusal."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.memory import Memory
from podium.core.part import Metric
from podium.testing.bench import Bench
from podium.testing.subject import attempt
from podium.testing.synthetic import Scene

__all__ = [
    "DEGENERATE",
    "EXTREME",
    "degenerate_input_gives_finite_numbers",
    "extreme_input_gives_the_numbers_of_float64",
]

DEGENERATE = (
    Scene("one rollout in each group", groups=(1, 1, 1)),
    Scene("a single rollout", groups=(1,)),
    Scene("a single group", groups=(5,)),
    Scene("equal rewards", rewards="equal"),
    Scene("rewards of zero", rewards="equal", scale=0.0),
    Scene("binary rewards in pairs", groups=(2, 2, 2, 2), rewards="binary"),
    Scene("rewards around 1e6", scale=1e6),
    Scene("equal rewards around 1e6", rewards="equal", scale=1e6),
    Scene("rewards around 1e-8", scale=1e-8),
    Scene("an empty answer", empty=(2, 5)),
    Scene("an empty answer among binary rewards", rewards="binary", empty=(0, 4)),
    Scene("nothing but empty answers", groups=(2, 2), empty=(0, 1, 2, 3)),
    Scene("tokens of the world only", groups=(3, 2), only_given=True),
    Scene("everything masked", nothing_kept=True),
    Scene("everything masked, binary rewards", rewards="binary", nothing_kept=True),
    Scene("policies far apart", log_ratio=300.0),
    Scene("policies far apart, binary rewards", rewards="binary", log_ratio=300.0),
    Scene("one rollout in each group, not all trained", groups=(1, 1, 2), purposes=True, masks=True),
    Scene("nobody counts", groups=(2, 3), nobody=True),
    Scene("nobody counts, binary rewards", groups=(2, 3), rewards="binary", nobody=True),
)
# Put to a part in float32, the precision of training, in which the square of 1e30 is infinite.
EXTREME = (
    Scene("rewards around ±1e30", scale=1e30),
    Scene("rewards of ±1e30 in turn", rewards="signs", scale=1e30),
    Scene("rewards of 1e30 among ones", rewards="outliers", scale=1e30),
    Scene("rewards of −1e30 among ones", rewards="outliers", scale=-1e30),
    Scene("equal rewards around 1e30", rewards="equal", scale=1e30),
    Scene("rewards of 1e30, not all trained", rewards="outliers", scale=1e30, purposes=True, masks=True),
    Scene("rewards around 1e-30", scale=1e-30),
    Scene("log-ratios of ±1e4", log_ratio=1e4),
    Scene("log-ratios of ±1e4, binary rewards", rewards="binary", log_ratio=1e4),
    Scene("log-ratios of ±1e4, not all trained", log_ratio=1e4, purposes=True, masks=True),
    Scene("entropies of 0", entropy=(0.0, 0.0)),
    Scene("entropies of a large vocabulary", entropy=(0.0, 12.5)),
)
ROUNDING = 1e-2  # how far float32 may be from float64, relative to the largest value of a column


def degenerate_input_gives_finite_numbers(part: Any, bench: Bench) -> str | None:
    for scene in (*DEGENERATE, *bench.scenes):
        batch = bench.batch(part, scene)
        try:
            result = attempt(part, batch)
        except Exception as error:
            return f"fails on {scene.name!r} with {type(error).__name__}: {error}"
        if isinstance(result, PodiumError):
            if not str(result).strip():
                return f"refuses {scene.name!r} without a reason"
            continue
        for name, x in result.items():
            if isinstance(x, Tensor) and x.is_floating_point():
                undefined = scene in DEGENERATE and _may_be_undefined(part, batch, name)
                bad = x.isinf() if undefined else ~x.isfinite()
                if bool(bad.any()):
                    return f"{name!r} is {float(x[bad][0])} on {scene.name!r}"
    return None


def extreme_input_gives_the_numbers_of_float64(part: Any, bench: Bench) -> str | None:
    """Finite numbers that float64 confirms: a standard deviation that overflows would leave advantages of 0."""
    for scene in EXTREME:
        batch = bench.batch(part, scene).to(dtype=torch.float32)
        single, wide = attempt(part, batch), attempt(part, batch.to(dtype=torch.float64))
        if isinstance(wide, PodiumError) or isinstance(single, PodiumError):
            continue
        for name, x in single.items():
            if not isinstance(x, Tensor) or not x.is_floating_point():
                continue
            undefined = _may_be_undefined(part, batch, name)
            bad = x.isinf() if undefined else ~x.isfinite()
            if bool(bad.any()) and not getattr(part, "overflows", ""):
                return f"{name!r} is {float(x[bad][0])} in float32 on {scene.name!r}, and `overflows` does not say why"
            gap = _gap(x, wide[name], least=1e-2 * min(abs(scene.scale), 1.0))
            if gap > ROUNDING:
                return f"{name!r} is off by {gap:.0%} of its largest value in float32 on {scene.name!r}"
    return None


def _gap(x: Tensor, expected: Tensor, least: float) -> float:
    """The largest difference between values that are defined, relative to the largest of them, or to `least`."""
    defined = x.isfinite() & expected.isfinite()
    if not bool(defined.any()):
        return 0.0
    x, expected = x[defined].double(), expected[defined].double()
    return float((x - expected).abs().max() / expected.abs().max().clamp(min=least))


def _may_be_undefined(part: Any, batch: Batch, name: str) -> bool:
    """A metric may have no value; nor need a memory that has seen nothing yet, if it says so from the start."""
    if isinstance(part, Memory):
        first = part.recall(part.initial(), batch["group.task"]).get(name.rpartition(".")[0])
        return isinstance(first, Tensor) and first.is_floating_point() and bool(first.isnan().any())
    return isinstance(part, Metric)
