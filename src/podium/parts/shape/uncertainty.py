"""Advantages scaled by the policy's certainty: of whole answers and of tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.normalize import Normalizer
from podium.core.part import Columns, Need, Shape
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["CertaintyFactor", "SelfCertainty", "StatisticFactor", "TokenPenalty"]

REFERENCE = "UCAS, https://github.com/xvolcano02/UCAS"
MEAN = Signal("mean_logp", of="old")


class SelfCertainty(Shape):
    """Self-certainty of a rollout: Σ over its tokens of −(mean of log π over the vocabulary) = KL(uniform ‖ π) + log V.

    It is written to `rollout.certainty`.
    """

    reference = REFERENCE
    over: str = "sum"  # the tokens: sum, as in the release, which favours long answers; or mean

    needs = (MEAN,)
    provides = ("rollout.certainty",)

    def __post_init__(self) -> None:
        one_of(self, "over", ("sum", "mean"))

    def __call__(self, batch: Batch) -> Columns:
        return {"rollout.certainty": batch.reduce(-batch[MEAN], "token", "rollout", self.over)}  # type: ignore[arg-type]


class StatisticFactor(Shape, Normalizer):
    """Scaling by a statistic z: A · e^{−positive · z} where A > 0, else A · e^{negative · z}.

    z is normalised within the group. With a certainty as the statistic, uncertain right answers and confident wrong
    ones weigh more.
    """

    reference = REFERENCE
    overflows = "it multiplies advantages by up to e^(0.35 · limit), which is 1.6e15 with the defaults"
    of: str = "rollout.certainty"  # the statistic, a column of rollouts
    positive: Number = 0.25  # the effect on positive advantages; 0: none
    negative: Number = 0.35  # the effect on the others; 0: none
    limit: Number | None = 100.0  # |z| is clamped to it: the raw statistic of a group of one may overflow e^z

    provides = ("rollout.advantage", "rollout.factor")

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "positive", 0)
        within(self, "negative", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.advantage", self.of)

    def factor(self, batch: Batch) -> Tensor:
        """[rollout] the factor of each advantage."""
        z = self.normalized(batch.by("rollout", "group"), batch[self.of])
        return torch.where(batch["rollout.advantage"] > 0, -self.positive * z, self.negative * z).exp()

    def __call__(self, batch: Batch) -> Columns:
        factor = self.factor(batch)
        return {"rollout.advantage": batch["rollout.advantage"] * factor, "rollout.factor": factor}


class CertaintyFactor(Shape):
    """Certainty weighting: A ← (2 − H / H̄) · A, H the mean entropy of a rollout's tokens, H̄ the mean of H in the group.

    The mean factor of a group is 1, unless the floor raises it.
    """

    reference = "ETTRL: Balancing Exploration and Exploitation in LLM Test-Time RL"
    floor: float | None = 0.0  # the smallest factor, which is negative where H > 2 H̄; None: no floor
    level: str = "rollout"  # of the advantages: rollout, or token where those of tokens differ

    def __post_init__(self) -> None:
        one_of(self, "level", ("rollout", "token"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return (f"{self.level}.advantage", Signal("entropy", of="sampler"))

    @property
    def provides(self) -> tuple[str, ...]:
        return (f"{self.level}.advantage", "rollout.mean_entropy", "rollout.factor")

    def __call__(self, batch: Batch) -> Columns:
        entropy = batch.reduce(batch[Signal("entropy", of="sampler")], "token", "rollout", "mean")
        mean = batch.by("rollout", "group").mean(entropy)
        factor = (2 - entropy / mean.where(mean > 0, 1)).where(mean > 0, 1)
        factor = factor if self.floor is None else factor.clamp(min=self.floor)
        advantage = f"{self.level}.advantage"
        return {
            advantage: batch[advantage] * batch.spread(factor, "rollout", self.level),
            "rollout.mean_entropy": entropy,
            "rollout.factor": factor,
        }


class TokenPenalty(Shape):
    """Certainty penalty per token: A_t ← A − weight · l_t, at least 0 where A > 0.

    l = (x − min) / (max − min + ε) over the trained tokens of the batch, ½ if x is about constant. With logits as x,
    confident tokens are reinforced less, and pushed down in rollouts without an advantage.
    """

    reference = REFERENCE
    signal: str = "logit"  # x, a signal of the old policy
    weight: Number = 0.05  # the size of the penalty; 0: none
    epsilon: float = 1e-6  # ε

    provides = ("token.advantage",)

    def __post_init__(self) -> None:
        within(self, "weight", 0)
        within(self, "epsilon", 0, open_low=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("token.advantage", Signal(self.signal, of="old"))

    def level(self, batch: Batch) -> Tensor:
        """[token] l."""
        x, tokens = batch[Signal(self.signal, of="old")], batch.by("token", where=batch.trained("token"))
        low, high = tokens.min(x), tokens.max(x)
        level = (x - low) / (high - low + self.epsilon)
        varies = (high > low) & torch.logical_not(torch.isclose(high, low))
        return torch.where(varies, level, 0.5).clamp(0, 1)

    def __call__(self, batch: Batch) -> Columns:
        a = batch["token.advantage"]
        penalised = a - self.weight * self.level(batch)
        return {"token.advantage": torch.where(a > 0, penalised.clamp(min=0), penalised)}
