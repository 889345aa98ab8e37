"""Credit in groups that have rollouts with and without a hint."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.columns import Origin
from podium.core.errors import within
from podium.core.part import Columns, Shape
from podium.core.signal import Signal

__all__ = ["BySetting", "HintConsistency"]

ENTROPY = Signal("entropy", of="old")


class BySetting(Shape):
    """Difficulty weighting, A ← A · w: successes count more in the harder setting, failures in the easier one.

    The settings of a group are its rollouts without a hint (N) and with one (H), of difficulty D = 1 − mean reward. For
    a rollout of setting x, w = 2 (D_x + ε) / (D_N + D_H + 2ε) if A > 0, and the same with 1 − D if A < 0. In a group
    with one setting only, w = 1.
    """

    reference = "ADHint: Adaptive Hints with Difficulty Priors for Reinforcement Learning"
    epsilon: float = 1e-6

    needs = ("rollout.reward", "rollout.advantage", "rollout.hinted")
    provides = ("rollout.advantage", "rollout.setting_factor")

    def __post_init__(self) -> None:
        within(self, "epsilon", 0, open_low=True)

    def difficulty(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """[group] D of the rollouts without a hint, and of those with one."""
        reward, hinted, groups = batch["rollout.reward"], batch["rollout.hinted"], batch.by("rollout", "group").agg
        return 1 - groups.mean(reward, ~hinted), 1 - groups.mean(reward, hinted)

    def factor(self, batch: Batch) -> Tensor:
        """[rollout] w."""
        hinted, groups = batch["rollout.hinted"], batch.by("rollout", "group").agg
        plain, helped = (batch.spread(d, "group", "rollout") for d in self.difficulty(batch))
        d, both = torch.where(hinted, helped, plain), plain + helped
        up = 2 * (d + self.epsilon) / (both + 2 * self.epsilon)
        down = 2 * (1 - d + self.epsilon) / (2 - both + 2 * self.epsilon)
        advantage = batch["rollout.advantage"]
        factor = torch.where(advantage > 0, up, torch.where(advantage < 0, down, 1))
        two = (groups.count(hinted) > 0) & (groups.count(~hinted) > 0)
        return factor.where(batch.spread(two, "group", "rollout"), 1)

    def __call__(self, batch: Batch) -> Columns:
        factor = self.factor(batch)
        return {"rollout.advantage": batch["rollout.advantage"] * factor, "rollout.setting_factor": factor}


class HintConsistency(Shape):
    """Weights of hint tokens by consistency of entropy: exp(−|H − H̄| / (H̄ + ε)), and 0 where A < 0.

    H is the policy's entropy at the hint token and H̄ its mean over the continuation, so a hint is learned where it is
    as predictable as the policy's own text. A failure is attributed to the continuation alone. Without a continuation
    the weight is 0; tokens outside the hint have the weight 1.
    """

    reference = "ADHint: Adaptive Hints with Difficulty Priors for Reinforcement Learning"
    epsilon: float = 1e-6

    needs = ("token.origin", "rollout.advantage", ENTROPY)
    provides = ("token.weight.hint",)

    def __post_init__(self) -> None:
        within(self, "epsilon", 0, open_low=True)

    def __call__(self, batch: Batch) -> Columns:
        entropy, hint = batch[ENTROPY], batch["token.origin"] == Origin.hint
        continuation = batch.action & ~hint
        tokens = batch.partition("token", "rollout")
        mean = tokens.mean(entropy, continuation)
        weight = (-(entropy - mean).abs() / (mean + self.epsilon)).exp()
        masked = batch.spread(batch["rollout.advantage"] < 0, "rollout", "token") | (tokens.count(continuation) == 0)
        return {"token.weight.hint": torch.where(hint, weight.masked_fill(masked, 0), 1)}
