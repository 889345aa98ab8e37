"""OTA: values over options of n steps, each discounted once, for goals that are far away."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["OptionEnd", "OptionLoss", "goal_weight", "option_end", "option_loss"]


@dataclass(frozen=True)
class OptionEnd:
    """Where an option ends, what it earns, and whether values go on behind it."""

    index: Tensor
    reward: Tensor
    mask: Tensor


def option_end(t: Tensor, goal: Tensor, final: Tensor, same: Tensor, steps: int) -> OptionEnd:
    """An option of `steps` from index t ends at the goal, if that is nearer and of the same trajectory, or at the last
    index; it earns −1, or 0 if it ends at the goal."""
    end = torch.minimum(t + steps, torch.where(same, goal, final))
    arrived = same & (end == goal)
    return OptionEnd(end, torch.where(arrived, 0.0, -1.0).double(), torch.where(arrived, 0.0, 1.0).double())


@dataclass(frozen=True)
class OptionLoss:
    """The expectile regression of two value heads on their targets."""

    target: Tensor  # with the smaller head
    advantage: Tensor
    weight: Tensor
    loss: Tensor


def option_loss(
    reward: Tensor,
    mask: Tensor,
    following: tuple[Tensor, Tensor],
    now: tuple[Tensor, Tensor],
    value: tuple[Tensor, Tensor],
    *,
    discount: float = 0.99,
    expectile: float = 0.7,
) -> OptionLoss:
    """q = r + γ · mask · min(V₁′, V₂′) at the option's end, with one γ per option; advantage q − mean V′ at its start;
    weight τ or 1 − τ by its sign; each head is regressed on the target of its own copy."""
    q = reward + discount * mask * torch.minimum(*following)
    advantage = q - (now[0] + now[1]) / 2
    weight = torch.where(advantage >= 0, expectile, 1.0 - expectile).to(q.dtype)
    loss = q.new_zeros(())
    for head, behind in zip(value, following, strict=True):
        loss = loss + (weight * (reward + discount * mask * behind - head) ** 2).mean()
    return OptionLoss(q, advantage, weight, loss)


def goal_weight(now: Tensor, subgoal: Tensor, alpha: float = 3.0, cap: float = 100.0) -> tuple[Tensor, Tensor]:
    """The advantage V(s_{t+k}, g) − V(s_t, g) of a subgoal, and the weight min(exp(α · advantage), cap) with which it
    is imitated."""
    advantage = subgoal - now
    return advantage, (alpha * advantage).exp().clamp(max=cap)
