"""What is still to come: suffix sums of token rewards beside the outcome."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.normalize import Normalizer
from podium.core.part import Advantage, Columns, Need
from podium.core.schedule import Number

__all__ = ["SuffixSums", "TwoSources"]


class SuffixSums(Advantage, Normalizer):
    """A_t = z(R) + Σ_{s ≥ t} c_s at the last token of each step, and the same for all tokens of the step.

    z is the outcome compared within the group, c the reward of tokens.
    """

    reference = "Process Reward Learning, https://github.com/MaxwellJryao/Process-Reward-Learning"
    of: str = "token.reward.process"  # c
    outcome: str = "rollout.reward"  # R
    step: int | str = 64  # how many of the model's tokens make a step; or a boolean column: the tokens that end one
    skip_zero: bool = True  # a step whose value is exactly 0 takes the next one's, as in the release

    provides = ("token.advantage",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.step, bool) or (isinstance(self.step, int) and self.step < 1):
            raise PodiumError(f"SuffixSums.step = {self.step!r} is not a number of tokens or the name of a column.")

    @property
    def normalizes(self) -> bool:
        return self.scale != "none"

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.of, self.outcome, *((self.step,) if isinstance(self.step, str) else ()))

    def outcomes(self, batch: Batch) -> Tensor:
        """[rollout] z(R)."""
        return self.normalized(batch.by("rollout", "group"), batch[self.outcome])

    def ends(self, batch: Batch) -> Tensor:
        """[token] whether a step ends there; the last one ends with the rollout."""
        action = batch.action
        if isinstance(self.step, str):
            ends: Tensor = batch[self.step]
        else:
            ends = batch.scan(action.to(batch.dtype), "token", "rollout", reverse=False) % self.step == 0
        return action & (ends | batch.last("token", "rollout", where=action))

    def values(self, batch: Batch) -> Tensor:
        """[token] z(R) + what is still to come, at the ends of steps; 0 elsewhere."""
        rewards = batch[self.of].where(batch.action, 0)
        value = batch.spread(self.outcomes(batch), "rollout", "token") + batch.scan(rewards, "token", "rollout")
        return value.where(self.ends(batch), 0)

    def __call__(self, batch: Batch) -> Columns:
        value, ends = self.values(batch), self.ends(batch)
        if self.skip_zero:
            ends = ends & (value != 0)
        return {"token.advantage": torch.where(ends, value, batch.following(value, "token", "rollout", where=ends))}


class TwoSources(Advantage):
    """A_t = returns of the process rewards c and of the outcome R, each less what the rest of the group earns.

    c_t ← (n · c_t − Σ_j mean c_j) / (n − 1) over the n rollouts of the group, likewise R, which stands at the last
    token; returns are Σ_{s ≥ t} gamma^{s−t}, each with its own gamma. A group of one has no baseline.
    """

    reference = "PRIME, https://github.com/PRIME-RL/PRIME"
    process: str = "token.reward.process"  # c
    outcome: str = "rollout.reward"  # R
    gamma_process: Number = 1.0
    gamma_outcome: Number = 1.0

    provides = ("token.advantage", "token.return")

    def __post_init__(self) -> None:
        within(self, "gamma_process", 0, 1)
        within(self, "gamma_outcome", 0, 1)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.process, self.outcome)

    def __call__(self, batch: Batch) -> Columns:
        c, groups = batch[self.process], batch.by("rollout", "group")
        n = groups.count().to(c.dtype)
        total = groups.sum(batch.reduce(c, "token", "rollout", "mean"))
        several = batch.spread(n > 1, "rollout", "token")
        n, total = batch.spread(n, "rollout", "token"), batch.spread(total, "rollout", "token")
        c = torch.where(several, (n * c - total) / (n - 1).clamp(min=1), c)
        outcome = batch.spread(groups.minus_leave_one_out(batch[self.outcome]), "rollout", "token")
        last = batch.last("token", "rollout", where=batch.action)
        returns = self._returns(batch, c, self.gamma_process)
        returns = returns + self._returns(batch, outcome.where(last, 0), self.gamma_outcome)
        return {"token.advantage": returns, "token.return": returns}

    @staticmethod
    def _returns(batch: Batch, x: Tensor, gamma: Number) -> Tensor:
        # Tokens of the world have no reward and take no time.
        decay = torch.ones_like(x).masked_fill(batch.action, float(gamma))
        return batch.scan(x.where(batch.action, 0), "token", "rollout", decay=decay)
