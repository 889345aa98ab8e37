"""Process rewards as credit: suffix sums and returns of token rewards, together with the outcome."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.normalize import Normalizer
from podium.core.part import Advantage, Columns, Need
from podium.core.schedule import Count, Number

__all__ = ["SuffixSums", "TwoSources"]


class SuffixSums(Advantage, Normalizer):
    """Adds process rewards to the normalised outcome: A = z(R) + Σ_{s ≥ t} c_s, t the last token of the step.

    All tokens of a step share its value. z normalises the outcome within the group, c is a reward per token. c = 0 is
    GRPO.
    """

    reference = "Process Reward Learning, https://github.com/MaxwellJryao/Process-Reward-Learning"
    of: str = "token.reward.process"  # c
    outcome: str = "rollout.reward"  # R
    step: Count | str = 64  # length of a step in the model's tokens; or a boolean column: the tokens that end a step
    skip_zero: bool = True  # whether a step whose value is exactly 0 takes that of the next one, as released

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
        """[token] Whether a step ends there; the last one ends with the rollout."""
        action = batch.action
        if isinstance(self.step, str):
            ends: Tensor = batch[self.step]
        else:
            ends = batch.scan(action.to(batch.dtype), "token", "rollout", reverse=False) % self.step == 0
        return action & (ends | batch.last("token", "rollout", where=action))

    def values(self, batch: Batch) -> Tensor:
        """[token] z(R) + Σ_{s ≥ t} c_s at the ends of steps; 0 elsewhere."""
        rewards = batch[self.of].where(batch.action, 0)
        value = batch.spread(self.outcomes(batch), "rollout", "token") + batch.scan(rewards, "token", "rollout")
        return value.where(self.ends(batch), 0)

    def __call__(self, batch: Batch) -> Columns:
        value, ends = self.values(batch), self.ends(batch)
        if self.skip_zero:
            ends = ends & (value != 0)
        return {"token.advantage": torch.where(ends, value, batch.following(value, "token", "rollout", where=ends))}


class TwoSources(Advantage):
    """Returns of process rewards c plus returns of the outcome R, each with a leave-one-out baseline.

        A_t = Σ_{s ≥ t} gamma_process^{s−t} c'_s + Σ_{s ≥ t} gamma_outcome^{s−t} R'_s
        c'_t = (n · c_t − Σ_j mean c_j) / (n − 1) over the n rollouts of the group

    R' is the outcome minus the mean of the other rollouts, and stands at the last token. A group of one has no
    baseline. c = 0 is RLOO.
    """

    reference = "PRIME, https://github.com/PRIME-RL/PRIME"
    process: str = "token.reward.process"  # c
    outcome: str = "rollout.reward"  # R
    gamma_process: Number = 1.0  # discount per token, in [0, 1]
    gamma_outcome: Number = 1.0  # discount per token, in [0, 1]
    bounded: bool = False  # whether c is first divided by the largest |Σ_{s ≥ t} c_s| of the batch, plus 1e-6

    provides = ("token.advantage", "token.return")

    def __post_init__(self) -> None:
        within(self, "gamma_process", 0, 1)
        within(self, "gamma_outcome", 0, 1)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.process, self.outcome)

    def __call__(self, batch: Batch) -> Columns:
        c, groups = batch[self.process], batch.by("rollout", "group")
        if self.bounded and len(c):
            c = c / (self._returns(batch, c, 1.0).abs().max() + 1e-6)
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
        # Tokens of the world have no reward and are not discounted.
        decay = torch.ones_like(x).masked_fill(batch.action, float(gamma))
        return batch.scan(x.where(batch.action, 0), "token", "rollout", decay=decay)
