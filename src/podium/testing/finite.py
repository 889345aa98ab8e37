"""Group 3: degenerate input gives finite numbers, or a clear refusal."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.memory import Memory
from podium.core.part import Metric
from podium.testing.bench import Bench
from podium.testing.subject import attempt
from podium.testing.synthetic import Scene

__all__ = ["DEGENERATE", "degenerate_input_gives_finite_numbers"]

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


def _may_be_undefined(part: Any, batch: Batch, name: str) -> bool:
    """A metric may have no value; nor need a memory that has seen nothing yet, if it says so from the start."""
    if isinstance(part, Memory):
        first = part.recall(part.initial(), batch["group.task"]).get(name.rpartition(".")[0])
        return isinstance(first, Tensor) and first.is_floating_point() and bool(first.isnan().any())
    return isinstance(part, Metric)
