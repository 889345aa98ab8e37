"""Teaching a value model to tell what a policy will solve from what it will not."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, logsigmoid

__all__ = ["soft_cross_entropy", "success_pairs", "value_model_loss"]


def success_pairs(logits: Tensor) -> Tensor:
    """The mean of −log σ(s_success − s_failure), s = logit 1 − logit 0, over rows 0 and 1, 2 and 3, … of [row, 2].

    Even rows are successes and odd ones failures under the same context, so what depends on the context alone cancels.
    A last row without a partner is left out.
    """
    score = logits[:, 1] - logits[:, 0]
    pairs = len(score) // 2 * 2
    if not pairs:
        return logits.sum() * 0
    return -logsigmoid(score[0:pairs:2] - score[1:pairs:2]).mean()


def soft_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean of −(1 − y) log p_0 − y log p_1, y in [0, 1]."""
    log_p = log_softmax(logits, dim=1)
    return -(torch.stack([1 - labels, labels], dim=1) * log_p).sum(1).mean()


def value_model_loss(logits: Tensor, labels: Tensor, alpha: float = 0.25) -> Tensor:
    """alpha · `success_pairs` + (1 − alpha) · `soft_cross_entropy`."""
    return alpha * success_pairs(logits) + (1 - alpha) * soft_cross_entropy(logits, labels)
