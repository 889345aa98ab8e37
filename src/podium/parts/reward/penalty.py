"""Rewards per token, and the distance to the reference as a penalty inside the reward."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["SequenceKL", "TokenReward"]

OLD, REF = Signal("logp", of="old"), Signal("logp", of="ref")


class TokenReward(Reward):
    """r_t = [t is the last action token] · R − beta · (log π_old − log π_ref)."""

    beta: Number = 0.0
    finished: str | None = None  # a boolean column of rollouts: the others have no outcome yet; None: all have one

    provides = ("token.reward",)

    def __post_init__(self) -> None:
        within(self, "beta", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        finished = () if self.finished is None else (self.finished,)
        return ("rollout.reward", *finished, *(() if self.beta == 0 else (OLD, REF)))

    def __call__(self, batch: Batch) -> Columns:
        outcome = batch["rollout.reward"]
        if self.finished is not None:
            outcome = outcome.where(batch[self.finished], 0)
        outcome = batch.spread(outcome, "rollout", "token")
        end = batch.last("token", "rollout", where=batch.action)
        reward = outcome.where(end, 0)
        if self.beta != 0:
            penalty = self.beta * (batch[OLD] - batch[REF])
            reward = reward - torch.where(batch.action, penalty, torch.zeros_like(penalty))
        return {"token.reward": reward}


class SequenceKL(Reward):
    """R − beta · Σ_t (log π_old − log π_ref): the penalty of the whole answer inside its reward."""

    reference = "Back to Basics (RLOO), https://arxiv.org/abs/2402.14740"
    beta: Number = 0.05

    needs = ("rollout.reward", OLD, REF)
    provides = ("rollout.reward", "rollout.reward.kl")

    def __post_init__(self) -> None:
        within(self, "beta", 0)

    def __call__(self, batch: Batch) -> Columns:
        kl = -self.beta * batch.reduce(batch[OLD] - batch[REF], "token", "rollout", "sum")
        return {"rollout.reward": batch["rollout.reward"] + kl, "rollout.reward.kl": kl}
