"""Difficulty-aware exploration rewards: the number of high-entropy windows against a target per difficulty."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.part import Columns, Reward
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["WindowReward", "entropy_reward"]


EASY, MEDIUM, HARD = 0, 1, 2
# Constants of the release, one per difficulty.
MARGIN = (0.15, 0.25, 0.35)  # tolerated deviation from the target, as a share of it
HUBER_KNEE = (2.0, 3.0, 4.0)  # where the penalty turns from quadratic to linear, windows
TEMPERATURE = (2.0, 2.5, 3.0)  # of the sigmoid that pays for more windows
CAP = (1.0, 1.0, 1.2)  # bound of the reward, in units of alpha
WRONG_SHARE = (0.6, 0.8, 1.0)  # how much of the exploration reward a wrong answer gets
OLD, REF = Signal("logp", of="old"), Signal("logp", of="ref")


def entropy_reward(count: Tensor, target: Tensor, level: Tensor, correct: Tensor, alpha: Tensor) -> Tensor:
    """[rollout] The reward for `count` high-entropy windows where `target` are expected; bounded by alpha · CAP.

    A right answer pays a Huber penalty for windows off target beyond the margin (on an easy task only for too many),
    but on a hard task it earns a sigmoid of the surplus. A wrong answer earns a share of that sigmoid for exploring.
    """
    f, kappa, tau, cap, share = (
        torch.tensor(x, dtype=count.dtype, device=count.device)[level]
        for x in (MARGIN, HUBER_KNEE, TEMPERATURE, CAP, WRONG_SHARE)
    )
    c, delta = alpha * cap, count - target
    margin = (f * target.clamp(min=1)).clamp(min=1)

    def huber(x: Tensor) -> Tensor:
        """The Huber loss of an excess x ≥ 0, relative to the margin."""
        x = x.clamp(min=0)
        return torch.where(x <= kappa, x.square() / (2 * kappa), x - kappa / 2) / (margin + kappa)

    excess = torch.where(level == EASY, delta - margin, delta.abs() - margin)
    penalty = -torch.minimum(c, c * huber(excess))
    bonus = torch.where(
        delta >= -margin, c * torch.sigmoid((delta + margin) / tau), -torch.minimum(c, c * huber(-delta - margin) / 2)
    )
    wrong = c * torch.sigmoid((delta - margin).clamp(min=0) / tau) * share
    return torch.where(correct, torch.where(level == HARD, bonus, penalty), wrong)


class WindowReward(Reward):
    """Rewards correctness plus difficulty-aware exploration: few high-entropy windows on easy tasks, many on hard ones.

        r = [right] + entropy_reward(count, target, difficulty, right, alpha)

    The target of a difficulty is the rounded mean over its tasks of their mean count in this batch. Also writes
    `rollout.kl_weight`, the KL coefficient of the difficulty from `DifficultyControl`, lowered by `second_chance` for a
    wrong rollout on an easy task that has explored.
    """

    reference = "ARES, https://github.com/shawn0728/ARES"
    second_chance: Number = 0.67  # factor on the KL coefficient
    searched: float = 0.5  # a rollout with at least this entropy excess has explored, nats

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
        exploration = entropy_reward(count, target, level, right, alpha)
        explored = (level == EASY) & ~right & (batch["rollout.moments.excess"] >= self.searched)
        return {
            "rollout.reward": right.to(batch.dtype) + exploration,
            "rollout.reward.windows": exploration,
            "rollout.moments.target": target,
            "rollout.kl_weight": torch.where(explored, beta * self.second_chance, beta),
        }
