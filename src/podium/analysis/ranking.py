"""How well scores tell successes from failures."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["auc"]


def auc(score: Tensor, success: Tensor) -> float:
    """How often a success has a higher score than a failure, ties counting half; −1 where there are not both."""
    right, wrong = score[success.bool()], score[~success.bool()]
    if not len(right) or not len(wrong):
        return -1.0
    ahead = (right[:, None] > wrong).double() + 0.5 * (right[:, None] == wrong).double()
    return float(torch.mean(ahead))
