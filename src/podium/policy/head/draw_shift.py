"""What truncation and an adaptive temperature do to the log-probability of a token that was drawn."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.policy.head.functionals import HeadRows, entropy, functional

__all__ = ["draw_shift"]


@functional("draw_shift")
def draw_shift(
    rows: HeadRows,
    top_k: int = 0,
    top_p: float = 1.0,
    strength: float = 0.0,
    pivot: float = 0.0,
    above: float = 0.0,
    below: float = 0.0,
) -> Tensor:
    """[N] log π − log μ of the token, μ being the distribution it was drawn from (see `Draw` and `Warmth`).

    With top-k and top-p alone it is the log of the probability mass that they leave. The token itself is always part of
    it: it was drawn, whatever rounding says of a token at the edge.
    """
    log_p = rows.log_softmax
    drawn = log_p
    if strength:
        gap = entropy(rows).clamp(min=1e-8).log() - pivot
        factor = 1 + strength * (torch.where(gap > 0, above, below) * gap).clamp(-1, 1)
        drawn = (rows.logits / factor[:, None]).log_softmax(-1)
    at = rows.ids[:, None]
    shift = (log_p - drawn).gather(1, at).squeeze(1)
    if top_k == 0 and top_p >= 1.0:
        return shift
    ranked, order = drawn.sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(ranked.shape[-1], device=ranked.device)
    inside = rank < (top_k or len(rank))
    p = ranked.double().exp() * inside
    total = p.cumsum(-1)
    if top_p < 1.0:
        inside = inside & (total - p < top_p * total[:, -1:])
    kept = (inside | (order == at)) * ranked.double().exp()
    return shift + kept.sum(-1).log().to(shift.dtype)
