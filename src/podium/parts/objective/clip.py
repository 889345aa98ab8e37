"""What keeps an update near the old policy: PPO's clip, CISPO's weight, GMPO's log-clip, a target ratio."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import stop_gradient
from podium.core.schedule import Number
from podium.core.value import Value

__all__ = ["Bounds", "Clip", "Target", "TrustRegion", "clipped_surrogate", "fast_clipped_surrogate"]

Bound = Tensor | float
Limits = tuple[float, float]  # of a log-ratio


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


def one_clamp_surrogate(ratio: Tensor, advantage: Tensor, low: Bound, high: Bound, dual: float | None = None) -> Tensor:
    """[token] `clipped_surrogate(ratio, …)` by one clamp, for ratios that are at hand, such as those of spans."""
    negative, none = advantage < 0, math.inf
    low, high = (torch.as_tensor(b, dtype=advantage.dtype, device=advantage.device) for b in (low, high))
    lower, upper = torch.where(negative, low, -none), torch.where(negative, none if dual is None else dual, high)
    return -advantage * ratio.clamp(lower, upper)


class TrustRegion(Value):
    """A policy-gradient loss that stops, or slows down, where the policy has moved away from the old one."""

    def needs(self) -> tuple[str, ...]:
        """The columns that it reads, besides the advantage and the log-probabilities."""
        return ()

    def of_tokens(self, batch: Batch, log_ratio: Tensor, advantage: Tensor) -> Tensor:
        """[token] what the ratio of a span is the geometric mean of: the ratios of its tokens, unless they are
        bounded before."""
        return log_ratio

    def loss(self, batch: Batch, log_ratio: Tensor, advantage: Tensor, now: Tensor, limits: Limits) -> Tensor:
        """[token] the loss at a log-ratio, which `limits` keep finite."""
        raise NotImplementedError

    def diagnostics(self, batch: Batch, log_ratio: Tensor, advantage: Tensor, now: Tensor) -> dict[str, Tensor]:
        """[token] what it did, by name; `log_ratio` is finite already."""
        raise NotImplementedError


class Bounds(TrustRegion):
    """Bounds of the ratio, [1 − low, 1 + high]; each is a number or the name of a column at any level."""

    low: Number | str = 0.2  # ε below 1; at least 0
    high: Number | str = 0.2  # ε above 1; at least 0

    def __post_init__(self) -> None:
        within(self, "low", 0, column=True)
        within(self, "high", 0, column=True)

    def needs(self) -> tuple[str, ...]:
        """The columns that hold bounds."""
        return tuple(b for b in (self.low, self.high) if isinstance(b, str))

    def epsilons(self, batch: Batch) -> tuple[Bound, Bound]:
        """ε below and above 1, each a number or [token]."""

        def epsilon(b: Number | str) -> Bound:
            return batch.spread_column(b) if isinstance(b, str) else float(b)

        return epsilon(self.low), epsilon(self.high)

    def bounds(self, batch: Batch) -> tuple[Bound, Bound]:
        """The smallest and the largest ratio, each a number or [token]."""
        low, high = self.epsilons(batch)
        return 1 - low, 1 + high


class Clip(Bounds):
    """The ratio is clipped to [1 − low, 1 + high].

    - `ppo`: max(−A·r, −A·clip(r)); with `dual`, at most −A·dual where A < 0 (dual-clip PPO);
    - `weight`: −A·sg[clip(r)]·log π, where the clipped ratio is a constant weight, so no token loses its gradient
      (CISPO);
    - `log`: for ratios of spans. The log-ratio of each token is clipped to [−low, high], on the side to which A pushes
      it, before the geometric mean is taken (GMPO): a token that has gone far leaves the mean without a gradient, and
      the others go on.
    """

    dual: Number | None = None  # the ratio at which negative advantages stop; above 1. None: no dual clip
    kind: str = "ppo"  # ppo, weight or log

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "dual", 1, open_low=True, optional=True)
        one_of(self, "kind", ("ppo", "weight", "log"))
        if self.dual is not None and self.kind != "ppo":
            raise PodiumError("Clip.dual applies to kind='ppo' only.")

    @classmethod
    def capped(cls, cap: float) -> Clip:
        """CISPO in TRL's convention: the weight is min(r, cap), without a lower bound."""
        return cls(low=1.0, high=cap - 1.0, kind="weight")

    def of_tokens(self, batch: Batch, log_ratio: Tensor, advantage: Tensor) -> Tensor:
        if self.kind != "log":
            return log_ratio
        low, high = (torch.as_tensor(b, dtype=log_ratio.dtype, device=log_ratio.device) for b in self.epsilons(batch))
        return log_ratio.clamp(torch.where(advantage < 0, -low, -math.inf), torch.where(advantage > 0, high, math.inf))

    def loss(self, batch: Batch, log_ratio: Tensor, advantage: Tensor, now: Tensor, limits: Limits) -> Tensor:
        if self.kind == "log":
            return -advantage * log_ratio.clamp(*limits).exp()
        low, high = self.bounds(batch)
        if self.kind == "ppo":
            # max(−A·r, −A·clip(r)): `clipped_surrogate`, in its faster form.
            return fast_clipped_surrogate(log_ratio, advantage, low, high, self.dual, limits)
        r = log_ratio.clamp(*limits).exp()
        return -advantage * stop_gradient(r).clamp(min=low).clamp(max=high) * now

    def of_ratio(self, batch: Batch, ratio: Tensor, advantage: Tensor) -> Tensor:
        """[token] the loss of `ppo` at a ratio that is finite already."""
        return one_clamp_surrogate(ratio, advantage, *self.bounds(batch), self.dual)

    def diagnostics(self, batch: Batch, log_ratio: Tensor, advantage: Tensor, now: Tensor) -> dict[str, Tensor]:
        if self.kind == "log":
            return {"clip_fraction": self.of_tokens(batch, log_ratio, advantage) != log_ratio}
        r, (low, high) = log_ratio.exp(), self.bounds(batch)
        if self.kind == "weight":
            return {"clip_fraction": (r < low) | (r > high)}
        loss = clipped_surrogate(r, advantage, low, high)
        watched = {"clip_fraction": loss > -advantage * r}
        if self.dual is not None:
            watched["dual_clip_fraction"] = (advantage < 0) & (loss > -advantage * self.dual)
        return watched


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

    def loss(self, batch: Batch, log_ratio: Tensor, advantage: Tensor, now: Tensor, limits: Limits) -> Tensor:
        r = log_ratio.clamp(*limits).exp()
        return (advantage.abs() + self.floor) * (r - self.ratio(batch)).abs()

    def diagnostics(self, batch: Batch, log_ratio: Tensor, advantage: Tensor, now: Tensor) -> dict[str, Tensor]:
        r, (low, high) = log_ratio.exp(), self.bounds(batch)
        return {"target_gap": (r - self.ratio(batch)).abs(), "overshot": (r < low) | (r > high)}
