"""The KL penalty inside the reward: per token, or summed over the answer."""

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
    """Token rewards of RLHF: r_t = [t is the model's last token] · R − beta · (log π_old − log π_ref).

    beta = 0 leaves the outcome alone, and needs no reference model. With a baseline, the outcome is R minus it, within
    ± `limit` (ReMax). With `of="turn.reward"` each turn has an outcome of its own, at its last token.
    """

    beta: Number = 0.0  # KL coefficient, ≥ 0
    finished: str | None = None  # a boolean column: unfinished rollouts have no outcome yet; None: all are finished
    baseline: str | None = None  # a column to subtract from R, such as group.baseline; None: 0
    limit: Number | None = None  # the outcome is held within ± this; None: no bound
    of: str = "rollout.reward"  # R, a column of rollouts or turns

    provides = ("token.reward",)

    def __post_init__(self) -> None:
        within(self, "beta", 0)
        within(self, "limit", 0, open_low=True, optional=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        columns = [c for c in (self.finished, self.baseline) if c is not None]
        return (self.of, *columns, *(() if self.beta == 0 else (OLD, REF)))

    def __call__(self, batch: Batch) -> Columns:
        outcome, level = batch[self.of], self.of.partition(".")[0]
        if self.baseline is not None:
            outcome = outcome - batch.spread_column(self.baseline, level)
        if self.limit is not None:
            outcome = outcome.clamp(-float(self.limit), float(self.limit))
        if self.finished is not None:
            outcome = outcome.where(batch.spread_column(self.finished, level), 0)
        outcome = batch.spread(outcome, level, "token")
        end = batch.last("token", level, where=batch.action)
        reward = outcome.where(end, 0)
        if self.beta != 0:
            penalty = self.beta * (batch[OLD] - batch[REF])
            reward = reward - torch.where(batch.action, penalty, torch.zeros_like(penalty))
        return {"token.reward": reward}


class SequenceKL(Reward):
    """Subtracts a sequence-level KL penalty from the reward: R − beta · Σ_t (log π_old − log π_ref)."""

    reference = "Back to Basics (RLOO), https://arxiv.org/abs/2402.14740"
    beta: Number = 0.05  # KL coefficient, ≥ 0

    needs = ("rollout.reward", OLD, REF)
    provides = ("rollout.reward", "rollout.reward.kl")

    def __post_init__(self) -> None:
        within(self, "beta", 0)

    def __call__(self, batch: Batch) -> Columns:
        kl = -self.beta * batch.reduce(batch[OLD] - batch[REF], "token", "rollout", "sum")
        return {"rollout.reward": batch["rollout.reward"] + kl, "rollout.reward.kl": kl}
