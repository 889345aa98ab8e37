"""Rewards for how often a rollout stops to think: windows of high entropy, counted against the task's difficulty."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.part import Columns, Reward
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["WindowReward", "entropy_reward"]


EASY, MEDIUM, HARD = 0, 1, 2


MARGIN, KNEE, WARMTH, CAP = (0.15, 0.25, 0.35), (2.0, 3.0, 4.0), (2.0, 2.5, 3.0), (1.0, 1.0, 1.2)


CONSOLATION = (0.6, 0.8, 1.0)  # what a wrong answer's search counts for


OLD, REF = Signal("logp", of="old"), Signal("logp", of="ref")


def entropy_reward(count: Tensor, target: Tensor, level: Tensor, correct: Tensor, alpha: Tensor) -> Tensor:
    """What `count` windows of high entropy earn where `target` are expected; |result| ≤ alpha times the level's cap."""
    f, kappa, tau, cap, share = (
        torch.tensor(x, dtype=count.dtype, device=count.device)[level] for x in (MARGIN, KNEE, WARMTH, CAP, CONSOLATION)
    )
    c, delta = alpha * cap, count - target
    g = (f * target.clamp(min=1)).clamp(min=1)

    def cost(x: Tensor) -> Tensor:
        """Huber's cost of an excess x ≥ 0, relative to the margin."""
        x = x.clamp(min=0)
        return torch.where(x <= kappa, x.square() / (2 * kappa), x - kappa / 2) / (g + kappa)

    off = torch.where(level == EASY, delta - g, delta.abs() - g)
    fewer = -torch.minimum(c, c * cost(off))
    more = torch.where(delta >= -g, c * torch.sigmoid((delta + g) / tau), -torch.minimum(c, c * cost(-delta - g) / 2))
    search = c * torch.sigmoid((delta - g).clamp(min=0) / tau) * share
    return torch.where(correct, torch.where(level == HARD, more, fewer), search)


class WindowReward(Reward):
    """[right] + `entropy_reward`: few windows of high entropy on easy tasks, many on hard ones.

    The target of a difficulty is the rounded mean over its tasks of their mean count in this batch. The weight of the
    distance to the reference is the controller's for the difficulty, and less for a wrong rollout on an easy task that
    has searched (`second_chance`).
    """

    reference = "ARES, https://github.com/shawn0728/ARES"
    second_chance: Number = 0.67
    searched: float = 0.5  # from this excess on a rollout has searched

    needs = (
        "rollout.moments",
        "rollout.moments.excess",
        "rollout.difficulty",
        "rollout.correct",
        "batch.difficulty.alpha",
        "batch.difficulty.beta",
    )
    provides = ("rollout.reward", "rollout.reward.windows", "rollout.moments.target", "rollout.kl_weight")

    def __call__(self, batch: Batch) -> Columns:
        count, level, right = batch["rollout.moments"], batch["rollout.difficulty"], batch["rollout.correct"].bool()
        tasks = batch.by("rollout", "group")
        size = tasks.count().clamp(min=1)  # each task once
        target = batch.by("rollout", level).mean(tasks.mean(count), weight=1 / size.to(count.dtype)).round()
        alpha, beta = (batch[f"batch.difficulty.{name}"][0][level] for name in ("alpha", "beta"))
        extra = entropy_reward(count, target, level, right, alpha)
        searching = (level == EASY) & ~right & (batch["rollout.moments.excess"] >= self.searched)
        return {
            "rollout.reward": right.to(batch.dtype) + extra,
            "rollout.reward.windows": extra,
            "rollout.moments.target": target,
            "rollout.kl_weight": torch.where(searching, beta * self.second_chance, beta),
        }
