"""What bounds the importance ratio in a policy-gradient loss: PPO's clip, CISPO's weight, or a target ratio."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, one_of, within
from podium.core.schedule import Number
from podium.core.value import Value

__all__ = ["Bounds", "Clip", "Target", "clipped_surrogate", "fast_clipped_surrogate"]

Bound = Tensor | float


def clipped_surrogate(ratio: Tensor, advantage: Tensor, low: Bound, high: Bound, dual: float | None = None) -> Tensor:
    """[token] PPO's loss: max(−A·r, −A·clip(r, low, high)), and with dual clip at most −A·dual where A < 0."""
    loss = torch.maximum(-advantage * ratio, -advantage * ratio.clamp(min=low).clamp(max=high))
    return loss if dual is None else torch.where(advantage < 0, torch.minimum(loss, -advantage * dual), loss)


def fast_clipped_surrogate(
    log_ratio: Tensor,
    advantage: Tensor,
    low: Bound,
    high: Bound,
    dual: float | None = None,
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> Tensor:
    """[token] `clipped_surrogate(clamp(log_ratio, *limits).exp(), …)`, faster: one clamp instead of the maximum.

    The maximum is −A·min(r, high) where A > 0, and −A·max(r, low) where A < 0, or −A·min(max(r, low), dual). Since exp
    is monotonic, that is −A·exp(clamp(log r, …)), with bounds that depend on the sign of A alone. Forward and backward
    take between a third and two thirds of the formula's time.
    """
    least, most = limits
    log_dual = most if dual is None else min(math.log(dual), most)
    bounds = (torch.as_tensor(b, dtype=advantage.dtype, device=advantage.device) for b in (low, high))
    log_low, log_high = (b.clamp(min=0).log().clamp(least, most) for b in bounds)
    negative = advantage < 0
    lower, upper = torch.where(negative, log_low, least), torch.where(negative, log_dual, log_high)
    return -advantage * log_ratio.clamp(lower, upper).exp()


class Bounds(Value):
    """Bounds of the ratio, [1 − low, 1 + high]; each is a number or the name of a column at any level."""

    low: Number | str = 0.2  # ε below 1; at least 0
    high: Number | str = 0.2  # ε above 1; at least 0

    def __post_init__(self) -> None:
        within(self, "low", 0, column=True)
        within(self, "high", 0, column=True)

    def needs(self) -> tuple[str, ...]:
        """The columns that hold bounds."""
        return tuple(b for b in (self.low, self.high) if isinstance(b, str))

    def bounds(self, batch: Batch) -> tuple[Bound, Bound]:
        """The smallest and the largest ratio, each a number or [token]."""

        def epsilon(b: Number | str) -> Bound:
            return batch.spread_column(b) if isinstance(b, str) else float(b)

        return 1 - epsilon(self.low), 1 + epsilon(self.high)


class Clip(Bounds):
    """The ratio is clipped to [1 − low, 1 + high].

    - `ppo`: max(−A·r, −A·clip(r)); with `dual`, at most −A·dual where A < 0 (dual-clip PPO);
    - `weight`: −A·sg[clip(r)]·log π, where the clipped ratio is a constant weight, so no token loses its gradient
      (CISPO).
    """

    dual: Number | None = None  # the ratio at which negative advantages stop; above 1. None: no dual clip
    kind: str = "ppo"  # ppo or weight

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "dual", 1, open_low=True, optional=True)
        one_of(self, "kind", ("ppo", "weight"))
        if self.dual is not None and self.kind != "ppo":
            raise PodiumError("Clip.dual applies to kind='ppo' only.")

    @classmethod
    def capped(cls, cap: float) -> Clip:
        """CISPO in TRL's convention: the weight is min(r, cap), without a lower bound."""
        return cls(low=1.0, high=cap - 1.0, kind="weight")


class Target(Bounds):
    """Instead of a clip, a regression on a target ratio: (|A| + floor) · |r − r*|.

    r* = (1 − low) + (low + high) · σ(Ã / width), as a constant. A token that has moved past its target is pulled back,
    where a clip would only stop pushing.
    """

    width: Number = 1e-3  # λ: advantages well beyond it aim at a bound; in the unit of Ã
    side: str = "advantage"  # Ã: the column of tokens whose sign says which way to go
    floor: Number = 0.0  # added to |A|: the weight of a token without an advantage

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "width", 0, open_low=True)
        within(self, "floor", 0)

    def needs(self) -> tuple[str, ...]:
        return (*super().needs(), f"token.{self.side}")

    def ratio(self, batch: Batch) -> Tensor:
        """[token] r*."""
        low, high = self.bounds(batch)
        return low + (high - low) * torch.sigmoid(batch[f"token.{self.side}"] / self.width)
