"""The policy-gradient surrogate: one formula for REINFORCE, PPO, GRPO, DAPO, GSPO, CISPO and their kin."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Need, stop_gradient
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.core.term import Term
from podium.core.value import Value

__all__ = ["Bounds", "Clip", "PolicyGradient", "Target"]

NOW = Signal("logp", of="now", grad=True)


class Bounds(Value):
    """Bounds of the ratio: [1 − low, 1 + high]; each may be a number or the name of a column at any level."""

    low: Number | str = 0.2
    high: Number | str = 0.2

    def __post_init__(self) -> None:
        within(self, "low", 0, column=True)
        within(self, "high", 0, column=True)

    def needs(self) -> tuple[str, ...]:
        return tuple(b for b in (self.low, self.high) if isinstance(b, str))

    def bounds(self, batch: Batch) -> tuple[Tensor | float, Tensor | float]:
        """The smallest and largest ratio, as numbers or [token]."""

        def bound(b: Number | str) -> Tensor | float:
            return batch.spread(batch[b], batch.name(b).partition(".")[0], "token") if isinstance(b, str) else float(b)

        return 1 - bound(self.low), 1 + bound(self.high)


class Clip(Bounds):
    """What lies outside the bounds [1 − low, 1 + high] is cut off.

    - `ppo`: max(−A·r, −A·clip(r)), and where A < 0 at most −A·dual;
    - `weight`: the clipped ratio is a constant weight of −A·log π, so no token loses its gradient (CISPO).
    """

    dual: Number | None = None  # a ratio, > 1
    kind: str = "ppo"

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
    """Instead of a clip: (|A| + floor) · |r − r*|, with r* = (1 − low) + (low + high) · σ(Ã / width) held fixed.

    A token that has moved past its target is pulled back, where a clip would only stop pushing.
    """

    width: Number = 1e-3  # λ: advantages well beyond it aim at a bound; in the unit of Ã
    side: str = "advantage"  # Ã: the advantage that says which way to go
    floor: Number = 0.0  # what every token weighs, however small its advantage

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


class PolicyGradient(Term):
    """−A · r, with the ratio r = exp(log π − log π_old) at a level of choice and clipped by choice.

    `ratio="none"` is −A · log π (REINFORCE). At a level above the token (`turn`, `sequence`, …) the ratio is the
    geometric mean over the trained tokens of the span, and each token receives the gradient of its own advantage, or,
    with `shared`, all of them that of the mean.
    """

    ratio: str = "token"  # none, token, turn, sequence, or another level
    clip: Bounds | None = None  # a Clip, or a Target instead
    advantage: str = "advantage"  # the column that credits the tokens
    behaviour: str = "old"  # whose log-probabilities stand below: old, sampler, or a role as it was before the updates
    clamp: float = 20.0  # log-ratios are held within ± this
    shared: bool = False  # whether the gradient of a span's ratio goes to all of its tokens, whoever's advantage it is

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shared and self.ratio in ("none", "token"):
            raise PodiumError(f"PolicyGradient(ratio={self.ratio!r}) has no spans whose gradient could be shared.")
        within(self, "clamp", 0, open_low=True)
        if self.ratio in ("group", "batch"):
            raise PodiumError(f"PolicyGradient.ratio = {self.ratio!r} is wider than a rollout: use 'sequence' at most.")
        if self.ratio == "none" and self.clip is not None:
            raise PodiumError("PolicyGradient(ratio='none') has nothing to clip: set clip=None.")

    @property
    def _old(self) -> Signal:
        return Signal("logp", of=self.behaviour)

    @property
    def needs(self) -> tuple[Need, ...]:
        ratio = () if self.ratio == "none" else (self._old,)
        return (f"token.{self.advantage}", NOW, *ratio, *(self.clip.needs() if self.clip else ()))

    @property
    def couples(self) -> str:
        return "token" if self.ratio in ("none", "token") else "rollout"

    def log_ratio(self, batch: Batch) -> Tensor:
        """[token] log of the ratio, at the level of choice."""
        return self._log_ratio(batch).clamp(*self._limits)

    @property
    def _limits(self) -> tuple[float, float]:
        """Within which the log-ratio is held."""
        return (-self.clamp, self.clamp) if self.ratio == "token" else (-math.inf, min(self.clamp, 10.0))

    def _log_ratio(self, batch: Batch) -> Tensor:
        if self.ratio == "token":
            return batch[NOW] - batch[self._old]
        if self.shared:
            return batch.spread(self.span_log_ratio(batch), self._span, "token")
        mean = stop_gradient(self.span_log_ratio(batch))
        own = batch[NOW] - stop_gradient(batch[NOW])  # 0, with the gradient of this token
        return own + batch.spread(mean, self._span, "token")

    @property
    def _span(self) -> str:
        return "rollout" if self.ratio == "sequence" else self.ratio

    def span_log_ratio(self, batch: Batch) -> Tensor:
        """[span] the mean log-ratio of the trained tokens of each span: log of the length-normalised ratio."""
        return batch.reduce(batch[NOW] - batch[self._old], "token", self._span, "mean", where=batch.trained("token"))

    def loss(self, batch: Batch) -> Tensor:
        a = batch[f"token.{self.advantage}"]
        if self.ratio == "none":
            return -a * batch[NOW]
        if self.clip is None:
            return -a * self.log_ratio(batch).exp()
        if isinstance(self.clip, Target):
            return (a.abs() + self.clip.floor) * (self.log_ratio(batch).exp() - self.clip.ratio(batch)).abs()
        assert isinstance(self.clip, Clip)
        if self.clip.kind == "weight":
            low, high = self.clip.bounds(batch)
            return -a * stop_gradient(self.log_ratio(batch).exp()).clamp(min=low).clamp(max=high) * batch[NOW]
        return -a * self._log_ratio(batch).clamp(*self._held(batch, a)).exp()

    def silent(self, batch: Batch) -> Tensor | None:
        """Without an advantage there is no loss, except the distance to a target."""
        return None if isinstance(self.clip, Target) else batch[f"token.{self.advantage}"] == 0

    def _held(self, batch: Batch, a: Tensor) -> tuple[Tensor, Tensor]:
        """[token] between what max(−A·r, −A·clip(r)) holds log r: the upper bound if A > 0, else the lower and `dual`.

        One clamp of the logarithm is that maximum, at a third of the time that it and its gradient would take.
        """
        assert isinstance(self.clip, Clip)
        least, most = self._limits
        dual = most if self.clip.dual is None else min(math.log(self.clip.dual), most)
        bounds = (torch.as_tensor(b, dtype=a.dtype, device=a.device) for b in self.clip.bounds(batch))
        low, high = (b.clamp(min=0).log().clamp(least, most) for b in bounds)
        down = a < 0
        return torch.where(down, low, least), torch.where(down, dual, high)

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        if self.ratio == "none":
            return {}
        a, r = batch[f"token.{self.advantage}"], self.log_ratio(batch).exp()
        watched = {"ratio": r, "approx_kl": (batch[self._old] - batch[NOW]).clamp(-self.clamp, self.clamp)}
        if self.clip is None:
            return watched
        low, high = self.clip.bounds(batch)
        if isinstance(self.clip, Target):
            return watched | {"target_gap": (r - self.clip.ratio(batch)).abs(), "overshot": (r < low) | (r > high)}
        assert isinstance(self.clip, Clip)
        if self.clip.kind == "weight":
            return watched | {"clip_fraction": (r < low) | (r > high)}
        plain, clipped = -a * r, -a * r.clamp(min=low).clamp(max=high)
        watched["clip_fraction"] = clipped > plain
        if self.clip.dual is not None:
            watched["dual_clip_fraction"] = (a < 0) & (torch.maximum(plain, clipped) > -a * self.clip.dual)
        return watched
