"""The keyed normaliser: (x − centre) / scale within the cells of a partition, with every choice explicit."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.cells import overflow_safe, root
from podium.core.errors import PodiumError, one_of, within
from podium.core.partition import Partition
from podium.core.schedule import Number
from podium.core.value import Value

__all__ = ["Normalizer"]

CENTRES = ("mean", "median", "lower_median", "leave_one_out", "none")
SCALES = ("std", "mad", "lower_mad", "std_of_others", "mean", "none")


class Normalizer(Value):
    """Normalisation within each cell: (x − centre) / (scale + ε).

    Implementations of "GRPO" differ by a factor of up to 2.3 in these choices, so each is explicit.
    """

    centre: str = "mean"  # mean, median, lower_median (always one of the members), leave_one_out, none
    scale: str = "std"  # std, mad, lower_mad (from lower medians), std_of_others (without the element), mean, none
    unbiased: bool = True  # divide by n − 1
    epsilon: float = 1e-6  # ε, at least 0
    epsilon_at: str = "outside"  # outside: s + ε; inside: sqrt(s² + ε); floor: max(s, ε)
    zero_scale: str = "divide"  # divide: by ε alone; skip: leave a value whose scale is 0 undivided
    singleton: str = "raw"  # a cell of one: raw (x itself), zero, raw_if_all (raw if all cells are, else zero), error
    virtual: int = 0  # virtual members added to each cell of at least two
    virtual_value: Number = 1.0  # the value of each virtual member
    limit: Number | None = None  # the result is clamped to ± this; None: not at all

    def __post_init__(self) -> None:
        one_of(self, "centre", CENTRES)
        one_of(self, "scale", SCALES)
        one_of(self, "epsilon_at", ("outside", "inside", "floor"))
        one_of(self, "zero_scale", ("divide", "skip"))
        one_of(self, "singleton", ("raw", "zero", "raw_if_all", "error"))
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

        `weight` counts rows more than once; `centre` overrides the centre; `scope` takes the scale over other cells
        than the centre, weighted by `scope_weight`.
        """
        x = p.real(x)
        self._check_weights(weight, weight if scope is None else scope_weight)
        single = p.agg.count() <= 1  # [cell]
        in_single = p.spread(single) if bool(single.any()) else None  # [element]
        rule = self.singleton
        if rule == "raw_if_all":
            rule = "raw" if bool(single.all()) else "zero"
        if rule == "error" and in_single is not None:
            raise PodiumError("A group has a single rollout: it has no baseline. Sample at least two for each task.")
        deviation = x - centre if centre is not None else self._deviation(p, x, weight)
        result = deviation
        if rule == "raw" and centre is None and in_single is not None:
            result = torch.where(in_single, x, result)
        if self.scale != "none":
            about_mean = deviation if centre is None and self.centre == "mean" else None
            if scope is None:
                result = result / self._divisor(p, x, weight, about_mean, self.virtual)
            else:
                result = result / self._divisor(scope, x, scope_weight)
        if rule == "zero" and in_single is not None:
            result = result.masked_fill(in_single, 0)
        if self.limit is not None:
            result = result.clamp(-float(self.limit), float(self.limit))
        return result

    def _check_weights(self, centre: Tensor | None, scale: Tensor | None) -> None:
        unweighted = {
            "centre": centre is not None and self.centre in ("median", "lower_median"),
            "scale": scale is not None and self.scale in ("mad", "lower_mad", "std_of_others", "mean"),
            "virtual": centre is not None and self.virtual > 0,
        }
        for name in (name for name, refused in unweighted.items() if refused):
            value = getattr(self, name)
            raise PodiumError(f"Normalizer({name}={value!r}) counts every member once: it takes no weights.")

    def _deviation(self, p: Partition, x: Tensor, weight: Tensor | None) -> Tensor:
        if self.centre == "none":
            return x
        if self.centre == "median":
            return x - p.median(x)
        if self.centre == "lower_median":
            return x - p.spread(p.agg.lower_median(x))
        if self.centre == "leave_one_out":
            return p.minus_leave_one_out(x, weight=weight)
        if self.virtual:
            return x - p.spread(self._mean_with_virtual(p, x))
        return p.centre(x, weight=weight)

    def _mean_with_virtual(self, p: Partition, x: Tensor) -> Tensor:
        """[cell] the mean of the members and the virtual ones."""
        return (p.agg.sum(x) + self.virtual * float(self.virtual_value)) / (p.agg.count() + self.virtual).to(x.dtype)

    def _divisor(
        self, p: Partition, x: Tensor, weight: Tensor | None, deviation: Tensor | None = None, virtual: int = 0
    ) -> Tensor:
        """[element] the scale with epsilon. `deviation` is x − mean of its cell, if computed already."""
        if self.scale == "std_of_others":
            return self._softened(*self._std_of_others(p, x))
        exists = p.agg.count() > 1
        if self.scale == "mean":
            scale = p.agg.mean(x).clamp(min=0)  # of rewards that are not negative; 0: nothing to divide by
        elif self.scale == "mad":
            scale = p.agg.mad(x)
        elif self.scale == "lower_mad":
            scale = p.agg.lower_median((x - p.spread(p.agg.lower_median(x))).abs())
        elif virtual:
            scale = overflow_safe(lambda wide: self._std_with_virtual(p, wide), x)
        else:
            deviation = p.centre(x, weight=weight) if deviation is None else deviation
            scale = p.agg.deviation_std(deviation, None, weight, self.unbiased)
            if weight is not None and self.unbiased:
                exists = exists & (p.agg.size(None, weight, x.dtype) > 1)
        return p.spread(self._softened(scale, exists))

    def _std_with_virtual(self, p: Partition, x: Tensor) -> Tensor:
        mean, n = self._mean_with_virtual(p, x), p.agg.count() + self.virtual
        square = p.agg.sum((x - p.spread(mean)).square()) + self.virtual * (float(self.virtual_value) - mean).square()
        return root(square / (n - (1 if self.unbiased else 0)).clamp(min=1).to(x.dtype))

    def _std_of_others(self, p: Partition, x: Tensor) -> tuple[Tensor, Tensor]:
        """[element] the std of the other members of its cell, and whether there are two of them."""
        # In float64: the rest of a sum without one large member would be lost in float32's rounding.
        shifted = p.centre(x.double())
        enters = torch.ones_like(shifted) if p.where is None else p.where.double()
        n, mean = p.count() - enters, p.leave_one_out(shifted)
        total = p.sum(shifted.square())
        square = total - enters * shifted.square() - n * mean.square()
        square = square.where(square > 1e-10 * total, 0)
        return (square / (n - (1 if self.unbiased else 0)).clamp(min=1)).sqrt().to(x.dtype), n > 1

    def _softened(self, scale: Tensor, exists: Tensor) -> Tensor:
        """The scale with epsilon; a scale that does not exist is 1."""
        scale = scale.where(exists, 1)
        if self.epsilon_at == "outside":
            denominator = scale + self.epsilon
        elif self.epsilon_at == "inside":
            denominator = overflow_safe(lambda s: (s.square() + self.epsilon).sqrt(), scale)
        else:
            denominator = scale.clamp(min=self.epsilon)
        if self.zero_scale == "skip" or self.epsilon == 0:
            denominator = denominator.where(scale != 0, 1)
        return denominator
