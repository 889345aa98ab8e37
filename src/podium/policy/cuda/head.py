"""The head of a model: log-probabilities and entropies of many tokens without materialising all their logits.

Logits are computed for as many rows at a time as fit in CHUNK numbers, read in one pass, and dropped; the backward pass
recomputes them and turns them into derivatives in one more. So memory does not grow with the number of tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from podium.policy.cuda import ops

__all__ = ["CHUNK", "logits", "read", "taken"]

CHUNK = 1 << 27  # logits at a time
ROUND = 128  # rows at a time are a multiple of this, for fast matrix products


def _chunks(rows: int, width: int) -> Iterator[slice]:
    size = max(CHUNK // width // ROUND, 1) * ROUND
    pieces = -(-rows // size)
    size = -(-rows // pieces // ROUND) * ROUND  # of nearly equal size
    yield from (slice(at, at + size) for at in range(0, rows, size))


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, parameter: Tensor, ids: Tensor, sharpness: float
    ) -> tuple[Tensor, Tensor]:
        total, entropy, chosen = (
            hidden.new_empty(len(ids), dtype=torch.promote_types(hidden.dtype, torch.float32)) for _ in range(3)
        )
        for at in _chunks(len(ids), len(weight)):
            parts = ops.head_read(ops.product(hidden[at], weight.t()), ids[at], sharpness)
            for whole, part in zip((total, entropy, chosen), parts, strict=True):
                whole[at] = part
        ctx.sharpness = sharpness
        ctx.save_for_backward(hidden, weight, ids, total, entropy)
        return chosen - total, entropy

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, ids, total, entropy = ctx.saved_tensors
        slopes = [g.contiguous() for g in grads]
        g_hidden, g_weight = torch.empty_like(hidden), None
        for at in _chunks(len(ids), len(weight)):
            logits = ops.product(hidden[at], weight.t())
            by_logp, by_entropy = (g[at] for g in slopes)
            slope = ops.head_back(
                logits, ids[at], ctx.sharpness, total[at], entropy[at], by_logp, by_entropy, hidden.dtype
            )
            g_hidden[at] = slope @ weight
            if ctx.needs_input_grad[2]:
                added = slope.t(), hidden[at]
                g_weight = ops.product(*added) if g_weight is None else ops.add_product(g_weight, *added)
        return g_hidden, None, g_weight, None, None


def read(
    hidden: Tensor, weight: Tensor, parameter: Tensor, ids: Tensor, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """[N] log-probabilities of tokens and entropies; `parameter`, of which `weight` is a copy, gets the gradient."""
    logp, entropy = _Read.apply(hidden, weight, parameter, ids, 1.0 / temperature)  # type: ignore[no-untyped-call]
    return logp, entropy


class _Logits(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, parameter: Tensor) -> Tensor:
        ctx.save_for_backward(hidden, weight)
        return ops.product(hidden, weight.t())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight = ctx.saved_tensors
        low = grads[0].to(hidden.dtype)
        return low @ weight, None, ops.product(low.t(), hidden) if ctx.needs_input_grad[2] else None


def logits(hidden: Tensor, weight: Tensor, parameter: Tensor) -> Tensor:
    """[N, vocabulary] in float32."""
    result: Tensor = _Logits.apply(hidden, weight, parameter)  # type: ignore[no-untyped-call]
    return result


class _Taken(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        ctx.rows = len(x)
        return x.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (places,) = ctx.saved_tensors
        whole = grads[0].new_zeros(ctx.rows, *grads[0].shape[1:])
        return whole.index_put_((places,), grads[0], accumulate=True), None


def taken(x: Tensor, places: Tensor) -> Tensor:
    """Rows of x, possibly repeated; on a GPU their derivatives are summed in a fixed order."""
    if not x.is_cuda:
        return x.index_select(0, places)
    result: Tensor = _Taken.apply(x, places)  # type: ignore[no-untyped-call]
    return result
