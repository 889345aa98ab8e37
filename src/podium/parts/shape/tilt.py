"""Token-level reweighting of advantages: by marks, perplexity, position, sign and temperature."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Columns, Need, Shape
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["KeepSign", "PerplexityFactor", "PositionBonus", "Tilt", "VirtualTemperature"]

OLD = Signal("logp", of="old")


class Tilt(Shape):
    """Amplified credit at marked tokens: A + alpha · |A|, so positive advantages grow and negative ones shrink."""

    reference = "HICRA, https://github.com/TIGER-AI-Lab/Hierarchical-Reasoner"
    alpha: Number = 0.2  # 0: A is unchanged
    where: str = "token.planning"  # a boolean column of tokens

    provides = ("token.advantage",)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("token.advantage", self.where)

    def __call__(self, batch: Batch) -> Columns:
        a, marked = batch["token.advantage"], batch[self.where]
        return {"token.advantage": torch.where(marked, a + self.alpha * a.abs(), a)}


class PerplexityFactor(Shape):
    """Perplexity weighting: A · clip(1 − alpha · w, low, high), w the standardised log-perplexity of the rollout.

    log PPL = −mean log π_old over the rollout's tokens: rollouts that the policy finds likely weigh more. The scope
    `batch` standardises over all rollouts. The scope `group` is the authors': mean and population std over the group's
    rollouts that lie within 1.5 interquartile ranges of its quartiles; a std of at most `epsilon` counts as 1.
    """

    reference = "Decomposing the Entropy-Performance Exchange, https://github.com/RUCAIBox/Slow_Thinking_with_LLMs"
    alpha: Number = 0.01  # 0: A is unchanged
    epsilon: float = 1e-6  # added to the std of the batch
    scope: str = "batch"  # over what w is standardised: batch or group
    low: float = 0.0  # the smallest factor
    high: float = float("inf")  # the largest factor

    needs = ("token.advantage", OLD, "rollout.length")
    provides = ("token.advantage",)

    def __post_init__(self) -> None:
        within(self, "alpha", 0)
        within(self, "epsilon", 0, open_low=True)
        one_of(self, "scope", ("batch", "group"))
        within(self, "low", 0, 1)
        within(self, "high", 1)

    def log_perplexity(self, batch: Batch) -> Tensor:
        """[rollout] log PPL."""
        return -batch.reduce(batch[OLD], "token", "rollout", "mean")

    def weights(self, batch: Batch) -> Tensor:
        """[rollout] w."""
        written, x = batch["rollout.length"] > 0, self.log_perplexity(batch)
        if self.scope == "batch":
            w = batch.by("rollout", where=written).standardize(x, epsilon=self.epsilon)
            return w.where(written, 0)
        group = batch.by("rollout", "group", where=written)
        low, high = (group.spread(group.agg.quantile(x, q)) for q in (0.25, 0.75))
        reach = 1.5 * (high - low)
        usual = batch.by("rollout", "group", where=written & (x >= low - reach) & (x <= high + reach))
        std = usual.std(x, unbiased=False)
        return ((x - usual.mean(x)) / std.where(std > self.epsilon, 1)).where(written, 0)

    def __call__(self, batch: Batch) -> Columns:
        factor = (1 - self.alpha * self.weights(batch)).clamp(self.low, self.high)
        return {"token.advantage": batch["token.advantage"] * batch.spread(factor, "rollout", "token")}


class PositionBonus(Shape):
    """Position bonus: A + sign(A) · min(gamma · σ(slope · (t/L − centre)), cap · |A|) at the t-th of L action tokens.

    Later tokens move more. `first` is the t of the first token.
    """

    reference = "Decomposing the Entropy-Performance Exchange, https://github.com/RUCAIBox/Slow_Thinking_with_LLMs"
    gamma: Number = 0.1  # the size of the bonus; 0: none
    slope: Number = 1.0  # how fast it grows along the rollout
    centre: float = 0.0  # the relative position at which it is half its size
    cap: float = float("inf")  # the largest bonus as a share of |A|
    first: int = 1  # 0 or 1

    needs = ("token.advantage", "rollout.length")
    provides = ("token.advantage",)

    def __post_init__(self) -> None:
        within(self, "gamma", 0)
        within(self, "cap", 0)
        within(self, "first", 0, 1)

    def bonus(self, batch: Batch) -> Tensor:
        """[token] the bonus before the cap and without the sign of the advantage; 0 at tokens of the world."""
        action = batch.action.to(batch.dtype)
        place = batch.scan(action, "token", "rollout", reverse=False) - 1 + self.first
        share = place / batch.spread(batch["rollout.length"], "rollout", "token").clamp(min=1)
        return self.gamma * torch.sigmoid(self.slope * (share - self.centre)) * action

    def __call__(self, batch: Batch) -> Columns:
        a = batch["token.advantage"]
        bonus = self.bonus(batch)
        if self.cap != float("inf"):  # inf · 0 is not a number
            bonus = bonus.minimum(self.cap * a.abs())
        return {"token.advantage": a + a.sign() * bonus}


class KeepSign(Shape):
    """Positive-only or negative-only learning: advantages of the other sign become 0 and stay in the denominators."""

    reference = (
        "Shrinkage, Expansion, or Both? (GRPO-N); Negative sample reinforcement, https://arxiv.org/abs/2506.01347"
    )
    sign: str = "negative"  # which advantages are kept: negative or positive
    on: Number = 1.0  # 0: all advantages are kept; a schedule may switch it
    level: str = "rollout"  # of the advantages

    def __post_init__(self) -> None:
        one_of(self, "sign", ("negative", "positive"))
        within(self, "on", 0, 1)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (f"{self.level}.advantage",)

    @property
    def provides(self) -> tuple[str, ...]:
        return (f"{self.level}.advantage",)

    def __call__(self, batch: Batch) -> Columns:
        a = batch[f"{self.level}.advantage"]
        kept = a < 0 if self.sign == "negative" else a > 0
        return {f"{self.level}.advantage": a.where(kept, 0) if self.on else a}


class VirtualTemperature(Shape):
    """Virtual temperature: (1 − a) A + a · b · ρ, credit for successes as if they were sampled at temperature T.

    ρ = π_T / π of the old policy at each token; b = [reward > success]; a = a₀/(1 + a₀) with
    a₀ = min(gap, cap)/mean(b), which grows with the distance of the entropy from its target; 0 without successes.
    """

    reference = "DCPO, https://github.com/597358816/DCPO"
    temperature: Number = 1.2  # T, above 0
    gap: Number = 0.5  # the distance of the entropy from its target, nats; 0: A is unchanged
    cap: Number = 0.1  # the largest gap that counts
    success: float = 0.05  # a reward above it is a success

    provides = ("token.advantage",)

    def __post_init__(self) -> None:
        within(self, "temperature", 0, open_low=True)
        within(self, "gap", 0)
        within(self, "cap", 0)

    @property
    def _target(self) -> Signal:
        return Signal("logp", of="old", temperature=self.temperature)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("token.advantage", "rollout.reward", OLD, self._target)

    def share(self, batch: Batch) -> Tensor:
        """[1] a."""
        successes = (batch["rollout.reward"] > self.success).to(batch.dtype)
        frequency = batch.by("rollout").agg.mean(successes)
        a = min(float(self.gap), float(self.cap)) / frequency.where(frequency > 0, 1)
        return (a / (1 + a)).where(frequency > 0, 0)

    def __call__(self, batch: Batch) -> Columns:
        a = batch.spread(self.share(batch), "batch", "token")
        right = batch.spread(batch["rollout.reward"] > self.success, "rollout", "token")
        rho = (batch[self._target] - batch[OLD]).clamp(-20, 20).exp()
        return {"token.advantage": (1 - a) * batch["token.advantage"] + a * rho.where(right, 0)}
