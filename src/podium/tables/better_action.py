"""A2PR: imitate the better of the data's action and a candidate, and only if it is better than the value."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["ActorLoss", "actor_loss", "better_action", "filtered"]


def filtered(q: Tensor, value: Tensor) -> Tensor:
    """1 where an action of the data is better than the value, Q > V: what the generative model is trained on."""
    return (q > value).to(q.dtype)


def better_action(
    q_data: Tensor, q_candidate: Tensor, value: Tensor, data: Tensor, candidate: Tensor, mask: float = 1.0
) -> tuple[Tensor, Tensor]:
    """The action to imitate, the candidate if its advantage is at least the data's, and its weight: `mask` if
    A_candidate ≥ 0 or A_data > 0, else 0."""
    a_data, a_candidate = q_data - value, q_candidate - value
    target = torch.where((a_candidate >= a_data)[:, None], candidate, data)
    return target, mask * ((a_candidate >= 0) | (a_data > 0)).to(q_data.dtype)


@dataclass(frozen=True)
class ActorLoss:
    """−λ mean Q + the weighted squared distance to the target; λ = α / mean |Q| carries no gradient."""

    imitation: Tensor
    scale: Tensor
    ascent: Tensor
    total: Tensor


def actor_loss(q_policy: Tensor, action: Tensor, target: Tensor, weight: Tensor, alpha: float = 2.5) -> ActorLoss:
    """The loss of TD3+BC toward a target that may differ by state; with weight 0 it is TD3's, up to its scale λ."""
    scale = alpha / q_policy.detach().abs().mean()
    imitation = ((action - target) ** 2 * weight[:, None]).mean()
    ascent = -scale * q_policy.mean()
    return ActorLoss(imitation, scale, ascent, ascent + imitation)
