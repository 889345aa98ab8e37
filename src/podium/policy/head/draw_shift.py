"""What an adaptive temperature does to the log-probability of a token that was drawn."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.policy.head.functionals import HeadRows, entropy, functional

__all__ = ["draw_shift"]


@functional("draw_shift")
def draw_shift(
    rows: HeadRows, strength: float = 0.0, pivot: float = 0.0, above: float = 0.0, below: float = 0.0
) -> Tensor:
    """[N] log π − log μ of the token, μ being the distribution it was drawn from (see `Warmth`).

    The temperature follows the entropy of the whole distribution; π and μ are over the tokens that could be drawn.
    """
    gap = entropy(rows.whole()).clamp(min=1e-8).log() - pivot
    factor = 1 + strength * (torch.where(gap > 0, above, below) * gap).clamp(-1, 1)
    drawn = (rows.logits / factor[:, None]).log_softmax(-1)
    return (rows.log_softmax - drawn).gather(1, rows.ids[:, None]).squeeze(1)
