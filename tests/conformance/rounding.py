"""Rounding as a reference did it, where its published digits show it. Nothing else changes a value."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["less_log_sum"]


def less_log_sum(mean_logp: Tensor, logits: Tensor) -> Tensor:
    """Mean log-probabilities, rounded like a mean of logits in float32 less their log-sum in float32.

    They are rounded once they are known in float64: the last bit of a sum in float32 depends on the CPU.
    """
    whole = logits.logsumexp(-1)
    rounded = ((mean_logp + whole).float() - whole.float()).double()
    torch.testing.assert_close(rounded, mean_logp, rtol=0, atol=1e-6)
    return rounded
