"""A bonus for answers whose hidden states span more, or come to span more, than they used to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.memory import Memory, State
from podium.core.part import Columns, Need, Shape
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["RankBaselines", "RankBonus"]

REFERENCE = "VERL: a hidden state approach, https://github.com/hf618/VERL"


def dynamics(stride: int, window: int) -> Signal:
    """[rollout, 3] effective rank, velocity and acceleration of the old policy's hidden states."""
    return Signal("rank_dynamics", of="old", level="rollout", stride=stride, window=window)


class RankBonus(Shape):
    """A ← A + min(max(Φ, 0), |A|/kappa) at the last token of a rollout, with

    Φ = weight · (β tanh D(rank) + (1 − β) tanh D(velocity)),  β = σ(gain · D(acceleration)),

    D(x) = clip((x − μ)/(|μ| + ε), −5, 5) for the moving average μ of x. The bonus never lowers A nor turns its sign.
    """

    reference = REFERENCE
    stride: int = 40  # tokens between two looks at the rank
    window: int = 512  # how many of the last tokens are looked at
    gain: Number = 2.0
    weight: Number = 1.0
    kappa: Number = 2.0
    epsilon: float = 1e-8  # beside |μ|
    credit: str = "last"  # which tokens get the bonus: last, as in the release, or all

    provides = ("token.advantage", "rollout.rank", "rollout.rank.explore", "rollout.rank.bonus")

    def __post_init__(self) -> None:
        within(self, "stride", 1)
        within(self, "window", 2)
        within(self, "weight", 0)
        within(self, "kappa", 0, open_low=True)
        within(self, "epsilon", 0, open_low=True)
        one_of(self, "credit", ("last", "all"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.advantage", "batch.rank.averages", dynamics(self.stride, self.window))

    def deviations(self, batch: Batch) -> Tensor:
        """[rollout, 3] D of rank, velocity and acceleration."""
        x, mean = batch[dynamics(self.stride, self.window)], batch["batch.rank.averages"]
        return ((x - mean) / (mean.abs() + self.epsilon)).clamp(-5, 5)

    def explore(self, batch: Batch) -> Tensor:
        """[rollout] β: how much the rank counts against its growth."""
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
            "rollout.rank": batch[dynamics(self.stride, self.window)][:, 0],
            "rollout.rank.explore": self.explore(batch),
            "rollout.rank.bonus": self.bonus(batch),
        }


class RankBaselines(Memory):
    """μ ← (1 − rate) · μ + rate · batch mean of rank, velocity and acceleration, from 0; used before it is updated.

    It exposes `rank.weight` for the bonus: 0 until a batch was seen, then 1, or by `success` 1 − (S + 1)/2 with S the
    moving average of the mean reward.
    """

    reference = REFERENCE
    stride: int = 40
    window: int = 512
    rate: float = 0.3
    success: bool = False  # whether the weight falls as rewards rise, instead of being 1

    provides = ("batch.rank.averages",)

    def __post_init__(self) -> None:
        within(self, "rate", 0, 1)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.reward", dynamics(self.stride, self.window))

    def initial(self) -> State:
        return {"mean": (0.0, 0.0, 0.0), "reward": 0.0, "seen": 0}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {"batch.rank.averages": torch.tensor([state["mean"]], dtype=torch.float64)}

    def observe(self, state: State, batch: Batch) -> State:
        rollouts = batch.by("rollout").agg
        if not bool(rollouts.count().any()):
            return state
        found = rollouts.mean(batch[dynamics(self.stride, self.window)].double())[0].tolist()
        reward = float(rollouts.mean(batch["rollout.reward"].double())[0])

        def moved(old: float, new: float) -> float:
            return (1 - self.rate) * old + self.rate * new

        means = tuple(moved(old, new) for old, new in zip(state["mean"], found, strict=True))
        return {"mean": means, "reward": moved(state["reward"], reward), "seen": state["seen"] + 1}

    def scalars(self, state: State) -> dict[str, float]:
        weight = 1 - (state["reward"] + 1) / 2 if self.success else 1.0
        return {"rank.weight": weight if state["seen"] else 0.0}
