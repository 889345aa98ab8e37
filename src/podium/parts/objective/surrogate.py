"""The policy-gradient surrogate: one term for REINFORCE, PPO, GRPO, DAPO, GSPO, CISPO and their kin."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.facts import RunFacts
from podium.core.part import Need, stop_gradient
from podium.core.signal import Signal
from podium.core.term import Term
from podium.parts.objective.clip import Bounds, Clip, Target, clipped_surrogate, fast_clipped_surrogate
from podium.parts.objective.importance import (
    NOW,
    log_ratio_limits,
    sequence_log_ratio,
    span_log_ratio,
    token_log_ratio,
)

__all__ = ["PolicyGradient"]


class PolicyGradient(Term):
    """−A · r with the importance ratio r = π / π_old; with PPO's clip, max(−A·r, −A·clip(r, 1 − ε_low, 1 + ε_high)).

    - `ratio="none"`: −A · log π (REINFORCE);
    - `ratio="token"`: r of each token (PPO, GRPO);
    - `ratio="turn"`, `"sequence"` or another level: the geometric mean of r over the trained tokens of the span
      (GSPO). The gradient of a token's loss reaches that token alone or, with `shared`, all tokens of the span.
    """

    ratio: str = "token"  # none, token, turn, sequence, or another level
    clip: Bounds | None = None  # a Clip, or a Target instead
    advantage: str = "advantage"  # the column of tokens that credits them
    behaviour: str = "old"  # π_old: old, sampler, or a role as it was before the updates
    clamp: float = 20.0  # log r of a token is held within ± this; that of a span from above only, by min(this, 10)
    shared: bool = False  # whether a token's loss has a gradient in all tokens of its span; for spans only

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
    def neutral(self) -> PolicyGradient:
        return self.replace(ratio="token", clip=None, shared=False)

    def inert(self, facts: RunFacts) -> Iterable[str]:
        if self.clip is not None and facts.updates == 1 and self.behaviour == "old":
            yield (
                "has nothing to clip: a batch is trained in one optimiser step, at which the importance ratio is 1. "
                "Set updates.mini_batches=4, or updates.epochs=2."
            )

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

    @property
    def _span(self) -> str:
        return "rollout" if self.ratio == "sequence" else self.ratio

    @property
    def _limits(self) -> tuple[float, float]:
        return log_ratio_limits(self.clamp, of_tokens=self.ratio == "token")

    def _unlimited_log_ratio(self, batch: Batch) -> Tensor:
        now, old = batch[NOW], batch[self._old]
        if self.ratio == "token":
            return token_log_ratio(now, old)
        return sequence_log_ratio(batch, now, old, self._span, self.shared)

    def log_ratio(self, batch: Batch) -> Tensor:
        """[token] log r of the token, or of the span that it belongs to."""
        return self._unlimited_log_ratio(batch).clamp(*self._limits)

    def span_log_ratio(self, batch: Batch) -> Tensor:
        """[span] log r of each span."""
        return span_log_ratio(batch, batch[NOW], batch[self._old], self._span)

    def loss(self, batch: Batch) -> Tensor:
        a = batch[f"token.{self.advantage}"]
        if self.ratio == "none":
            return -a * batch[NOW]
        if isinstance(self.clip, Clip) and self.clip.kind == "ppo":
            # max(−A·r, −A·clip(r)): `clipped_surrogate`, in its faster form.
            log_r, (low, high) = self._unlimited_log_ratio(batch), self.clip.bounds(batch)
            return fast_clipped_surrogate(log_r, a, low, high, self.clip.dual, self._limits)
        r = self.log_ratio(batch).exp()
        if self.clip is None:
            return -a * r
        if isinstance(self.clip, Target):
            return (a.abs() + self.clip.floor) * (r - self.clip.ratio(batch)).abs()
        low, high = self.clip.bounds(batch)
        return -a * stop_gradient(r).clamp(min=low).clamp(max=high) * batch[NOW]

    def silent(self, batch: Batch) -> Tensor | None:
        """Without an advantage there is no loss, except the distance to a target."""
        return None if isinstance(self.clip, Target) else batch[f"token.{self.advantage}"] == 0

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
        loss = clipped_surrogate(r, a, low, high)
        watched["clip_fraction"] = loss > -a * r
        if self.clip.dual is not None:
            watched["dual_clip_fraction"] = (a < 0) & (loss > -a * self.clip.dual)
        return watched
