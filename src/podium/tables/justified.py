"""Decisions that can be justified: a bonus for those that win a debate before a judge, beside the reward."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.errors import PodiumError

__all__ = ["debate_bonus", "judge_loss", "justified_reward"]


def debate_bonus(action: Tensor, baseline: Tensor, bonus: float = 10.0) -> Tensor:
    """[decision] r_d = bonus · 1[J(action) > J(baseline)], from the judge's scores of both; a tie earns nothing."""
    return bonus * (action > baseline).to(action.dtype)


def justified_reward(reward: Tensor, debated: Tensor, share: float, scale: float = 15.0) -> Tensor:
    """[decision] r = (1 − share) · scale · reward + share · r_d."""
    if not 0 <= share <= 1:
        raise PodiumError(f"share = {share}: the share of the debate in the reward lies between 0 and 1.")
    return (1 - share) * scale * reward + share * debated


def judge_loss(first: Tensor, second: Tensor, preferred: Tensor) -> tuple[Tensor, Tensor]:
    """The cross-entropy of a judge over its scores of two decisions, of which number `preferred` (0 or 1) is the better
    one, and [pair] the probability that it prefers the first (Bradley-Terry)."""
    scores = torch.stack([first, second], -1)
    return torch.nn.functional.cross_entropy(scores, preferred), scores.softmax(-1)[..., 0]
