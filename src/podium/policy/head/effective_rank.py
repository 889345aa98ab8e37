"""The effective rank of a rollout's hidden states, and how it grows while the rollout is written."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.policy.head.functionals import HeadRows, functional

__all__ = ["effective_rank", "rank_changes", "rank_dynamics"]

SMALL = 1 << 17  # numbers of a matrix that the host decomposes before a GPU has begun to


@functional("rank_dynamics", level="rollout")
def rank_dynamics(rows: HeadRows, stride: int = 40, window: int = 512) -> Tensor:
    """[3] the effective rank of a rollout's hidden states, its velocity and its acceleration per `stride` tokens.

    Over the last `window` tokens. With M_j the rank of the first j · stride + 1 of them and δ_j = M_j − mean of the
    earlier M: the rank of all, the mean of δ, and the mean of its differences; 0 where there are too few.
    """
    hidden = rows.hidden[-window:].double()
    if hidden.numel() <= SMALL:
        hidden = hidden.cpu()
    changes = (x.mean() if len(x) else hidden.new_zeros(()) for x in rank_changes(hidden, stride))
    return torch.stack([effective_rank(hidden), *changes]).float().to(rows.hidden.device)


def effective_rank(hidden: Tensor) -> Tensor:
    """exp of the entropy of the singular values of the centred rows, as shares of their sum; 0 for fewer than two."""
    if len(hidden) < 2:
        return hidden.new_zeros(())
    sizes = torch.linalg.svdvals(hidden - hidden.mean(0))
    shares = sizes / (sizes.sum() + 1e-8)
    return (-(shares * (shares + 1e-8).log()).sum()).exp()


def rank_changes(hidden: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """δ, each rank after the first minus the mean of those before it, and the differences of δ."""
    ends = range(stride, len(hidden), stride) if len(hidden) >= 2 * stride else range(0)
    if len(ends) < 2:
        return hidden.new_zeros(0), hidden.new_zeros(0)
    rank = torch.stack([effective_rank(hidden[: end + 1]) for end in ends])
    velocity = rank[1:] - rank.cumsum(0)[:-1] / torch.arange(1, len(rank), device=rank.device)
    return velocity, velocity.diff()
