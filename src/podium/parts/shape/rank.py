"""A bonus for answers whose hidden states have a higher, or faster growing, effective rank than usual."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.facts import RunFacts
from podium.core.part import Columns, Need, Shape
from podium.core.schedule import Count, Number
from podium.core.signal import Signal

__all__ = ["RankBonus"]


REFERENCE = "VERL: a hidden state approach, https://github.com/hf618/VERL"


def rank_dynamics_of(stride: int, window: int) -> Signal:
    """[rollout, 3] effective rank, velocity and acceleration of the old policy's hidden states."""
    return Signal("rank_dynamics", of="old", level="rollout", stride=stride, window=window)


class RankBonus(Shape):
    """Effective-rank bonus: A ← A + min(max(Φ, 0), |A|/kappa) at the last token of a rollout.

    Φ = weight · (β tanh D(rank) + (1 − β) tanh D(velocity)),  β = σ(gain · D(acceleration)),

    where D(x) = clip((x − μ)/(|μ| + ε), −5, 5) is the deviation of x from its moving average μ. The bonus never lowers
    A, and with kappa of at least 1 it never changes its sign.
    """

    reference = REFERENCE
    stride: Count = 40  # tokens between two measurements of the rank
    window: Count = 512  # how many of the last tokens each measurement covers
    gain: Number = 2.0  # how sharply β depends on the acceleration
    weight: Number = 1.0  # the size of the bonus; 0: none
    kappa: Number = 2.0  # the bonus is at most |A|/kappa; above 0
    epsilon: float = 1e-8  # added to |μ|
    credit: str = "last"  # which tokens get the bonus: last, as in the release, or all

    provides = ("token.advantage", "rollout.rank", "rollout.rank.explore", "rollout.rank.bonus")

    def __post_init__(self) -> None:
        within(self, "stride", 1)
        within(self, "window", 2)
        within(self, "weight", 0)
        within(self, "kappa", 0, open_low=True)
        within(self, "epsilon", 0, open_low=True)
        one_of(self, "credit", ("last", "all"))

    def inert(self, facts: RunFacts) -> Iterable[str]:
        if self.stride >= facts.max_tokens:
            yield (
                f"measures the rank every {self.stride} tokens, and an answer has at most {facts.max_tokens}: there is "
                f"no velocity. Set stride to a few tokens, such as {max(facts.max_tokens // 40, 1)}."
            )

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.advantage", "batch.rank.averages", rank_dynamics_of(self.stride, self.window))

    def deviations(self, batch: Batch) -> Tensor:
        """[rollout, 3] D of rank, velocity and acceleration."""
        x, mean = batch[rank_dynamics_of(self.stride, self.window)], batch["batch.rank.averages"]
        return ((x - mean) / (mean.abs() + self.epsilon)).clamp(-5, 5)

    def explore(self, batch: Batch) -> Tensor:
        """[rollout] β: the weight of the rank against that of its velocity."""
        return torch.sigmoid(self.gain * self.deviations(batch)[:, 2])

    def bonus(self, batch: Batch) -> Tensor:
        """[rollout] what is added."""
        rank, velocity, _ = self.deviations(batch).tanh().unbind(1)
        beta = self.explore(batch)
        signal = self.weight * (beta * rank + (1 - beta) * velocity)
        return signal.clamp(min=0).minimum(batch["rollout.advantage"].abs() / self.kappa)

    def __call__(self, batch: Batch) -> Columns:
        bonus = batch.spread(self.bonus(batch), "rollout", "token")
        if self.credit == "last":
            bonus = bonus.where(batch.last("token", "rollout", where=batch.action), 0)
        return {
            "token.advantage": batch.spread(batch["rollout.advantage"], "rollout", "token") + bonus,
            "rollout.rank": batch[rank_dynamics_of(self.stride, self.window)][:, 0],
            "rollout.rank.explore": self.explore(batch),
            "rollout.rank.bonus": self.bonus(batch),
        }
