"""The policy-gradient surrogate: one term for REINFORCE, PPO, GRPO, DAPO, GSPO, CISPO and their kin."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.facts import RunFacts
from podium.core.part import Need
from podium.core.signal import Signal
from podium.core.term import Term
from podium.parts.objective.clip import Clip, Target, TrustRegion
from podium.parts.objective.importance import (
    NOW,
    log_ratio_limits,
    sequence_log_ratio,
    span_log_ratio,
    token_log_ratio,
)
from podium.parts.objective.soft_region import DivergenceMask

__all__ = ["PolicyGradient"]


class PolicyGradient(Term):
    """−A · r with the importance ratio r = π / π_old; with PPO's clip, max(−A·r, −A·clip(r, 1 − ε_low, 1 + ε_high)).

    - `ratio="none"`: −A · log π (REINFORCE);
    - `ratio="token"`: r of each token (PPO, GRPO);
    - `ratio="turn"`, `"sequence"` or another level: the geometric mean of r over the trained tokens of the span
      (GSPO). The gradient of a token's loss reaches that token alone or, with `shared`, all tokens of the span.
    """

    ratio: str = "token"  # none, token, turn, sequence, or another level
    clip: TrustRegion | None = None  # a Clip; or a Target, a SoftGate or a DivergenceMask instead
    advantage: str = "advantage"  # the column of tokens that credits them
    behaviour: str = "old"  # π_old: old, sampler, or a role as it was before the updates
    clamp: float = 20.0  # log r of a token is held within ± this; that of a span from above only, by min(this, 10)
    shared: bool = False  # whether a token's loss has a gradient in all tokens of its span; for spans only
    joint: bool = False  # whether the ratio of a span is the product of its tokens' instead; for spans only

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.shared or self.joint) and self.ratio in ("none", "token"):
            what = "whose gradient could be shared" if self.shared else "of which a ratio could be joint"
            raise PodiumError(f"PolicyGradient(ratio={self.ratio!r}) has no spans {what}.")
        within(self, "clamp", 0, open_low=True)
        if self.ratio in ("group", "batch"):
            raise PodiumError(f"PolicyGradient.ratio = {self.ratio!r} is wider than a rollout: use 'sequence' at most.")
        if self.ratio == "none" and self.clip is not None:
            raise PodiumError("PolicyGradient(ratio='none') has nothing to clip: set clip=None.")
        if isinstance(self.clip, Clip) and self.clip.kind == "log" and self.ratio == "token":
            raise PodiumError("Clip(kind='log') clips tokens before the mean over a span: set ratio='sequence'.")
        if isinstance(self.clip, DivergenceMask) and self.ratio != "token":
            raise PodiumError("DivergenceMask compares probabilities of tokens: set ratio='token'.")

    @property
    def neutral(self) -> PolicyGradient:
        return self if self.ratio == "none" else self.replace(ratio="token", clip=None, shared=False, joint=False)

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
        log_r = token_log_ratio(batch[NOW], batch[self._old])
        if self.ratio == "token":
            return log_r
        if self.clip is not None:
            log_r = self.clip.of_tokens(batch, log_r, batch[f"token.{self.advantage}"])
        return sequence_log_ratio(batch, log_r, self._span, self.shared, self.joint)

    def log_ratio(self, batch: Batch) -> Tensor:
        """[token] log r of the token, or of the span that it belongs to."""
        return self._unlimited_log_ratio(batch).clamp(*self._limits)

    def span_log_ratio(self, batch: Batch) -> Tensor:
        """[span] log r of each span."""
        return span_log_ratio(batch, token_log_ratio(batch[NOW], batch[self._old]), self._span, self.joint)

    def loss(self, batch: Batch) -> Tensor:
        a = batch[f"token.{self.advantage}"]
        if self.ratio == "none":
            return -a * batch[NOW]
        if self.clip is None:
            return -a * self.log_ratio(batch).exp()
        if self.shared and isinstance(self.clip, Clip) and self.clip.kind == "ppo":
            # The tokens of a span share a ratio: the exponential of each span, not of each token.
            of_spans = self.span_log_ratio(batch).clamp(*self._limits).exp()
            return self.clip.of_ratio(batch, batch.spread(of_spans, self._span, "token"), a)
        return self.clip.loss(batch, self._unlimited_log_ratio(batch), a, batch[NOW], self._limits)

    def silent(self, batch: Batch) -> Tensor | None:
        """Without an advantage there is no loss, except the distance to a target."""
        return None if isinstance(self.clip, Target) else batch[f"token.{self.advantage}"] == 0

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        if self.ratio == "none":
            return {}
        log_r = self.log_ratio(batch)
        watched = {"ratio": log_r.exp(), "approx_kl": (batch[self._old] - batch[NOW]).clamp(-self.clamp, self.clamp)}
        if self.clip is None:
            return watched
        if isinstance(self.clip, Clip) and self.clip.kind == "log":
            log_r = token_log_ratio(batch[NOW], batch[self._old])  # it clips tokens, not spans
        return watched | self.clip.diagnostics(batch, log_r, batch[f"token.{self.advantage}"], batch[NOW])
