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
    """Perplexity weighting: A · max(1 − alpha · w, 0), w the log-perplexity of the rollout standardised over the batch.

    log PPL = −mean log π_old over the rollout's tokens: rollouts that the policy finds likely weigh more.
    """

    reference = "Decomposing the Entropy-Performance Exchange"
    alpha: Number = 0.01  # 0: A is unchanged
    epsilon: float = 1e-6  # added to the std

    needs = ("token.advantage", OLD, "rollout.length")
    provides = ("token.advantage",)

    def __post_init__(self) -> None:
        within(self, "alpha", 0)
        within(self, "epsilon", 0, open_low=True)

    def log_perplexity(self, batch: Batch) -> Tensor:
        """[rollout] log PPL."""
        return -batch.reduce(batch[OLD], "token", "rollout", "mean")

    def weights(self, batch: Batch) -> Tensor:
        """[rollout] w."""
        written = batch["rollout.length"] > 0
        w = batch.by("rollout", where=written).standardize(self.log_perplexity(batch), epsilon=self.epsilon)
        return w.where(written, 0)

    def __call__(self, batch: Batch) -> Columns:
        factor = (1 - self.alpha * self.weights(batch)).clamp(min=0)
        return {"token.advantage": batch["token.advantage"] * batch.spread(factor, "rollout", "token")}


class PositionBonus(Shape):
    """Position bonus: A + sign(A) · gamma · σ(slope · t/L) at the t-th of L action tokens: later ones move more."""

    reference = "Decomposing the Entropy-Performance Exchange"
    gamma: Number = 0.1  # the size of the bonus; 0: none
    slope: Number = 1.0  # how fast it grows along the rollout

    needs = ("token.advantage", "rollout.length")
    provides = ("token.advantage",)

    def __post_init__(self) -> None:
        within(self, "gamma", 0)

    def bonus(self, batch: Batch) -> Tensor:
        """[token] the bonus without the sign of the advantage; 0 at tokens of the world."""
        action = batch.action.to(batch.dtype)
        place = batch.scan(action, "token", "rollout", reverse=False)
        share = place / batch.spread(batch["rollout.length"], "rollout", "token").clamp(min=1)
        return self.gamma * torch.sigmoid(self.slope * share) * action

    def __call__(self, batch: Batch) -> Columns:
        a = batch["token.advantage"]
        return {"token.advantage": a + a.sign() * self.bonus(batch)}


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
