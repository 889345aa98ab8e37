"""The keyed normaliser: (x − centre) / scale within the cells of a partition, with every choice explicit."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.errors import PodiumError, one_of, within
from podium.core.partition import Partition
from podium.core.schedule import Number
from podium.core.value import Value

__all__ = ["Normalizer"]

CENTRES = ("mean", "median", "leave_one_out", "none")
SCALES = ("std", "mad", "std_of_others", "none")


class Normalizer(Value):
    """(x − centre) / (scale + ε) in each cell.

    "GRPO" hides a factor of 2.3 between code bases in these choices, so none is implied.
    """

    centre: str = "mean"  # mean, median, leave_one_out, none
    scale: str = "std"  # std, mad, std_of_others (of the cell without the element), none
    unbiased: bool = True  # divide by n − 1
    epsilon: float = 1e-6
    epsilon_at: str = "outside"  # outside: s + ε; inside: sqrt(s² + ε); floor: max(s, ε)
    zero_scale: str = "divide"  # divide: by ε alone; skip: leave a value whose scale is 0 undivided
    singleton: str = "raw"  # what a cell of one gets: raw (centre 0, scale 1), zero, error
    virtual: int = 0  # how many virtual members join each cell
    virtual_value: Number = 1.0  # and their value
    limit: Number | None = None  # clamp the result to ±limit

    def __post_init__(self) -> None:
        one_of(self, "centre", CENTRES)
        one_of(self, "scale", SCALES)
        one_of(self, "epsilon_at", ("outside", "inside", "floor"))
        one_of(self, "zero_scale", ("divide", "skip"))
        one_of(self, "singleton", ("raw", "zero", "error"))
        within(self, "epsilon", 0)
        within(self, "virtual", 0)
        within(self, "limit", 0, open_low=True, optional=True)
        if self.virtual and not (self.centre == "mean" and self.scale in ("std", "none")):
            raise PodiumError("Normalizer.virtual works with centre='mean' and scale='std' or 'none'.")

    def normalized(
        self,
        p: Partition,
        x: Tensor,
        *,
        weight: Tensor | None = None,
        centre: Tensor | None = None,
        scope: Partition | None = None,
        scope_weight: Tensor | None = None,
    ) -> Tensor:
        """Normalise x within the cells of `p`.

        `weight` counts rows more than once; `centre` overrides the centre by given values; `scope` takes the scale
        over other cells than the centre, with its own weights.
        """
        alone = p.count() + self.virtual <= 1
        if self.singleton == "error" and bool(alone.any()):
            raise PodiumError("A group has a single rollout: it has no baseline. Sample at least two for each task.")
        deviation = x - centre if centre is not None else self._deviation(p, x, weight)
        if self.singleton == "raw" and centre is None:
            deviation = torch.where(alone, x, deviation)
        if self.scale != "none":
            scale, undefined = self._scale(p, x, weight, scope, scope_weight)
            if scope is None:
                undefined = undefined | alone
            deviation = self._divide(deviation, scale, undefined)
        if self.singleton == "zero":
            deviation = torch.where(alone, torch.zeros_like(deviation), deviation)
        if self.limit is not None:
            deviation = deviation.clamp(-float(self.limit), float(self.limit))
        return deviation

    def _deviation(self, p: Partition, x: Tensor, weight: Tensor | None) -> Tensor:
        if self.centre == "none":
            return x
        if self.centre == "median":
            return x - p.median(x)
        if self.centre == "leave_one_out":
            # G/(G−1) · (x − mean), which is exactly 0 in a constant cell where x − (others' mean) is not.
            if weight is None and p.where is None:
                n = p.count().to(x.dtype)
                return p.centre(x) * (n / (n - 1).clamp(min=1))
            return x - p.leave_one_out(x, weight=weight)
        deviation = p.centre(x, weight=weight)
        if self.virtual:
            n = p.count().to(x.dtype)
            mean = x - deviation
            return x - (n * mean + self.virtual * float(self.virtual_value)) / (n + self.virtual)
        return deviation

    def _scale(
        self, p: Partition, x: Tensor, weight: Tensor | None, scope: Partition | None, scope_weight: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The scale for each element, and where it does not exist (fewer than two members)."""
        cells = p if scope is None else scope
        rows = weight if scope is None else scope_weight
        if self.scale == "mad":
            return cells.mad(x), torch.zeros_like(x, dtype=torch.bool)
        if self.scale == "std_of_others":
            return self._std_of_others(cells, x)
        n = cells.count().to(x.dtype) if rows is None else cells.sum(torch.ones_like(x), weight=rows)
        if self.virtual and scope is None:
            std = self._std_with_virtual(cells, x)
            return std, n + self.virtual < 2
        return cells.std(x, weight=rows, unbiased=self.unbiased), n < 2

    def _std_with_virtual(self, p: Partition, x: Tensor) -> Tensor:
        deviation = self._deviation(p, x, None)
        virtual = float(self.virtual_value) - (x - deviation)
        n = p.count().to(x.dtype) + self.virtual
        square = p.sum(deviation.square()) + self.virtual * virtual.square()
        return (square / (n - (1 if self.unbiased else 0)).clamp(min=1)).sqrt()

    def _std_of_others(self, p: Partition, x: Tensor) -> tuple[Tensor, Tensor]:
        shifted = p.centre(x)
        mean = p.leave_one_out(shifted)
        n = (p.count() - 1).to(x.dtype)  # the others
        # Σ over the others of (x_j − mean)², from the sums over all.
        square = p.sum(shifted.square()) - shifted.square() - n * mean.square()
        negligible = square <= 1e-10 * p.sum(shifted.square())
        square = torch.where(negligible, torch.zeros_like(square), square)
        return (square / (n - (1 if self.unbiased else 0)).clamp(min=1)).sqrt(), n < 2

    def _divide(self, deviation: Tensor, scale: Tensor, undefined: Tensor) -> Tensor:
        scale = torch.where(undefined, torch.ones_like(scale), scale)
        if self.epsilon_at == "outside":
            denominator = scale + self.epsilon
        elif self.epsilon_at == "inside":
            denominator = (scale.square() + self.epsilon).sqrt()
        else:
            denominator = scale.clamp(min=self.epsilon)
        zero = scale == 0
        if self.zero_scale == "skip":
            denominator = torch.where(zero, torch.ones_like(denominator), denominator)
        elif self.epsilon == 0:
            # 0 / 0 in a constant cell: the deviation is 0 there, and stays it.
            denominator = torch.where(zero & (deviation == 0), torch.ones_like(denominator), denominator)
        return deviation / denominator
