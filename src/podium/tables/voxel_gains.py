"""Refinement by many agents: each adds to its own probability in turns, and earns what its label became likelier."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from podium.core.errors import PodiumError

__all__ = ["boundary_weight", "label_entropy", "likelier_labels", "refined_maps", "rewards_to_go"]

CLIP = 1e-6  # how far probabilities stay from 0 and 1 inside the logarithm


def label_entropy(p: Tensor, label: Tensor, clip: float = CLIP) -> Tensor:
    """[…] χ = −y ln p − (1 − y) ln(1 − p), with p held within [clip, 1 − clip]."""
    held, y = p.clamp(clip, 1 - clip), label.to(p.dtype)
    return -(y * held.log() + (1 - y) * (1 - held).log())


def likelier_labels(
    before: Tensor, after: Tensor, label: Tensor, weight: Tensor | float = 1.0, clip: float = CLIP
) -> Tensor:
    """[…] the reward of each agent, weight · (χ_before − χ_after): 0 where nothing changes, below 0 where its label
    became less likely. Over several turns the rewards sum to that of the first and the last map."""
    if before.shape != after.shape or before.shape != label.shape:
        shapes = ", ".join(str(tuple(x.shape)) for x in (before, after, label))
        raise PodiumError(f"Maps before and after and labels must have one shape; they have {shapes}.")
    return weight * (label_entropy(before, label, clip) - label_entropy(after, label, clip))


def refined_maps(start: Tensor, actions: Sequence[Tensor]) -> list[Tensor]:
    """The map before each turn and after the last: each action is added, and the sum held within [0, 1]."""
    maps = [start]
    for action in actions:
        maps.append((maps[-1] + action).clamp(0, 1))
    return maps


def rewards_to_go(rewards: Sequence[Tensor], gamma: float) -> list[Tensor]:
    """Σ_k gamma^k r_{t+k} of each turn t."""
    returns: list[Tensor] = []
    for reward in reversed(rewards):
        returns.append(reward if not returns else reward + gamma * returns[-1])
    return returns[::-1]


def boundary_weight(label: Tensor, kappa: float) -> tuple[Tensor, Tensor]:
    """Of a grid of labels, which have a neighbour along an axis with the other label, and 1 + kappa there, else 1."""
    boundary = torch.zeros_like(label, dtype=torch.bool)
    for axis in range(label.dim()):
        differ = label.diff(dim=axis) != 0
        none = torch.zeros_like(label.narrow(axis, 0, 1), dtype=torch.bool)
        boundary |= torch.cat([differ, none], axis) | torch.cat([none, differ], axis)
    return boundary, 1 + kappa * boundary.to(torch.get_default_dtype() if label.dtype == torch.bool else torch.float64)
