"""Group 4: the gradient of a term is that of its value, constants held where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.part import constants
from podium.core.signal import Signal
from podium.core.term import Term
from podium.testing.bench import Bench
from podium.testing.subject import leaves
from podium.testing.synthetic import Scene

__all__ = ["gradient_matches_finite_differences"]

SMALL = (
    Scene("small", groups=(3, 2), turns=2),
    Scene("small, binary rewards", groups=(3, 3), rewards="binary", turns=2),
    Scene("small, not all trained", groups=(4, 3), rewards="binary", turns=2, purposes=True, masks=True),
)
STEP, TOLERANCE = 1e-6, 1e-5


class Held:
    """Records what `stop_gradient` returns, in order, and returns the same again."""

    def __init__(self) -> None:
        self.values: list[Tensor] = []

    def record(self, x: Tensor) -> Tensor:
        self.values.append(x.detach().clone())
        return self.values[-1]

    def replay(self) -> Callable[[Tensor], Tensor]:
        values: Iterator[Tensor] = iter(self.values)
        return lambda x: next(values)


def gradient_matches_finite_differences(part: Term, bench: Bench) -> str | None:
    for scene in SMALL:
        for seed in (0, 1):
            try:
                point = SlopePoint(part, bench.batch(part, scene, seed))
            except PodiumError:
                continue
            worst = None if point.agrees() else point.worst()
            if worst:
                return worst
    return None


class SlopePoint:
    """A term at a point: its value and gradient, and its value nearby with all constants held."""

    def __init__(self, term: Term, batch: Batch) -> None:
        self.term, self.batch, self.held = term, batch, Held()
        self.leaves = leaves(term, batch)
        with constants(self.held.record):
            value = term(batch.with_columns(self.leaves))
        slopes: tuple[Tensor | None, ...] = (None,) * len(self.leaves)
        if value.requires_grad:
            slopes = torch.autograd.grad(value, list(self.leaves.values()), allow_unused=True)
        self.value = float(value.detach())
        self.slopes = {
            s: torch.zeros_like(x) if g is None else g
            for (s, x), g in zip(self.leaves.items(), slopes, strict=True)
            if s.grad
        }

    def along(self, direction: Mapping[Signal, Tensor]) -> tuple[float, float, float]:
        """The slope in a direction, by the gradient and by differences to either side."""
        nearby = []
        for step in (STEP, -STEP):
            moved = {s: x + step * direction[s] if s in direction else x for s, x in self.leaves.items()}
            with torch.no_grad(), constants(self.held.replay()):
                nearby.append(float(self.term(self.batch.with_columns(moved))))
        slope = sum(float((self.slopes[s] * d).sum()) for s, d in direction.items())
        return slope, (nearby[0] - self.value) / STEP, (self.value - nearby[1]) / STEP

    def agrees(self) -> bool:
        """Whether the slopes in a few random directions are right."""
        generator = torch.Generator().manual_seed(0)
        for _ in range(3):
            direction = {
                s: torch.randn(x.shape, generator=generator, dtype=torch.float64) for s, x in self.slopes.items()
            }
            slope, right, left = self.along(direction)
            scale = sum(float((self.slopes[s] * d).abs().sum()) for s, d in direction.items())
            if not abs(slope - (right + left) / 2) <= TOLERANCE * max(scale, 1e-3):
                return False
        return True

    def worst(self) -> str | None:
        """The first coordinate whose slope is wrong; none where the term only has a kink."""
        for signal, slopes in self.slopes.items():
            for i in range(slopes.numel()):
                direction = torch.zeros_like(slopes).index_fill(0, torch.tensor([i]), 1.0)
                slope, right, left = self.along({signal: direction})
                expected, scale = (right + left) / 2, max(abs(slope), abs(right), 1e-3)
                if abs(right - left) > 1e-3 * scale:
                    continue  # a kink: there is no derivative
                if not abs(slope - expected) <= TOLERANCE * scale:
                    return (
                        f"the gradient by {signal.column} at {signal.level} {i} is {slope:.6g}, finite differences "
                        f"give {expected:.6g} (constants must go through stop_gradient)"
                    )
        return None
