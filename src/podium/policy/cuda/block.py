"""A decoder's block, forward and backward, as one differentiable operation.

The residual stream is float32 and is only ever added to; matrix products take factors in the compute precision and sum
in float32; everything between them is one pass over memory. For the backward pass a block keeps its input, the inputs
and outputs of its attention, and the input of its gate; the rest is recomputed where that costs one pass. With
`recompute` it keeps its input alone.

    x₁ = x + attention(turn(norm(x) Wᵀ)) Oᵀ
    x₂ = x₁ + gated(norm(x₁) Gᵀ) Dᵀ
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from podium.policy.cuda import ops
from podium.policy.cuda.attention import attend, attend_back
from podium.policy.forward.trie_levels import TrieLevels
from podium.policy.model.compute_weights import LayerWeights
from podium.policy.model.lora import Adapter

__all__ = ["BlockShape", "block", "block_kept", "embedded", "final"]


@dataclass(frozen=True)
class BlockShape:
    """Settings and tensors that all blocks of a pass share."""

    heads: int
    kv_heads: int
    size: int  # of a head
    eps: float
    dtype: torch.dtype  # of the factors of matrix products
    cos: Tensor  # [positions, size / 2] float32
    sin: Tensor
    position: Tensor  # [N]
    levels: TrieLevels
    recompute: bool = False

    @property
    def turned(self) -> int:
        return self.heads + self.kv_heads


Kept = tuple[Tensor, ...]  # what the backward pass needs of one half of a block


def _projected(x: Tensor, w: LayerWeights, s: BlockShape) -> Kept:
    """Queries, keys and values with rotary embedding; the scale of the norm before them; the inputs and scales of the
    heads' norms."""
    y, scale = ops.normed(x, w.norm_in, s.eps, s.dtype)
    raw = ops.linear(y, w.qkv, w.qkv_bias).view(len(x), -1, s.size)
    qkv, before, head_scales = raw, raw.new_empty(0), x.new_empty(0)
    if w.q_norm is not None and w.k_norm is not None:
        qkv, before = raw.clone(), raw
        parts = []
        for places, weight in _heads(s, w.q_norm, w.k_norm):
            flat, part = ops.normed(raw[:, places].reshape(-1, s.size), weight, s.eps, s.dtype)
            qkv[:, places] = flat.view(len(x), -1, s.size)
            parts.append(part.view(len(x), -1))
        head_scales = torch.cat(parts, 1)
    ops.turn(qkv, s.cos, s.sin, s.position, s.turned)
    return qkv, scale, before, head_scales


def _attended(x: Tensor, w: LayerWeights, s: BlockShape) -> tuple[Tensor, Kept]:
    """x₁, and what the backward pass needs."""
    qkv, scale, raw, head_scales = _projected(x, w, s)
    out, total = attend(*_split(qkv, s), s.levels, s.size**-0.5)
    x = ops.add_linear(x, out.flatten(1), w.out, w.out_bias)
    return x, (scale, qkv, out, total, raw, head_scales)


def _heads(s: BlockShape, q_norm: Tensor, k_norm: Tensor) -> list[tuple[slice, Tensor]]:
    return [(slice(0, s.heads), q_norm), (slice(s.heads, s.turned), k_norm)]


def _split(qkv: Tensor, s: BlockShape) -> tuple[Tensor, Tensor, Tensor]:
    return qkv[:, : s.heads], qkv[:, s.heads : s.turned], qkv[:, s.turned :]


def _fed(x: Tensor, w: LayerWeights, s: BlockShape) -> tuple[Tensor, Kept]:
    """x₂, and what the backward pass needs."""
    y, scale = ops.normed(x, w.norm_out, s.eps, s.dtype)
    both = ops.linear(y, w.gate_up, w.gate_up_bias)
    return ops.add_linear(x, ops.gated(both), w.down, w.down_bias), (scale, both)


class _Block(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: LayerWeights, s: BlockShape, *parameters: Tensor) -> Tensor:
        middle, first = _attended(x, w, s)
        last, second = _fed(middle, w, s)
        ctx.w, ctx.s = w, s
        ctx.save_for_backward(x, *(() if s.recompute else (middle, *first, *second)))
        return last

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        w, s, (g,) = ctx.w, ctx.s, grads
        x, *kept = ctx.saved_tensors
        if s.recompute:
            middle, first = _attended(x, w, s)
            second = _fed(middle, w, s)[1]
        else:
            middle, first, second = kept[0], tuple(kept[1:7]), tuple(kept[7:])
        del kept
        gx, low, by_norm_out, by_mlp = _fed_back(g, middle, second, w, s)
        del middle, second
        gx, by_norm_in, by_attention = _attended_back(gx, low, x, first, w, s)
        return (gx, None, None, by_norm_in, by_norm_out, *by_attention, *by_mlp)


def _fed_back(
    g: Tensor, x: Tensor, kept: Kept, w: LayerWeights, s: BlockShape
) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
    """The gradients of x₁, in both precisions; of the norm; of the matrices and biases in their order."""
    scale, both = kept
    low = g.to(s.dtype)
    slope, inside = ops.gate_back(low @ w.down, both)
    by_down = _matrix_back(low, inside, [len(w.down)], w.down_bias is not None, w.adapters.get("down"), g)
    del inside, low
    gx, low, by_norm, y = ops.norm_back(slope @ w.gate_up, x, scale, w.norm_out, g)
    sizes = [len(w.gate_up) // 2] * 2
    by_gate = _matrix_back(slope, y, sizes, w.gate_up_bias is not None, w.adapters.get("gate_up"))
    return gx, low, by_norm, [*by_gate, *by_down]


def _attended_back(
    g: Tensor, low: Tensor, x: Tensor, kept: Kept, w: LayerWeights, s: BlockShape
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The gradients of x; of the norm; of the heads' norms, the matrices and biases in their order."""
    scale, qkv, out, total, raw, head_scales = kept
    by_out = _matrix_back(low, out.flatten(1), [len(w.out)], w.out_bias is not None, w.adapters.get("out"), g)
    slope = (low @ w.out).view_as(out)
    parts = attend_back(slope, *_split(qkv, s), out, total, s.levels, s.size**-0.5)
    joint = torch.cat(parts, 1)
    ops.turn(joint, s.cos, s.sin, s.position, s.turned, back=True)
    by_heads = []
    if w.q_norm is not None and w.k_norm is not None:
        for places, weight in _heads(s, w.q_norm, w.k_norm):
            above, below = (t[:, places].reshape(-1, s.size) for t in (joint, raw))
            gx, _, by_head, _ = ops.norm_back(above, below, head_scales[:, places].reshape(-1), weight, again=False)
            joint[:, places] = gx.view(len(joint), -1, s.size)
            by_heads.append(by_head)
    flat = joint.flatten(1)
    gx, _, by_norm, y = ops.norm_back(flat @ w.qkv, x, scale, w.norm_in, g)
    sizes = [s.heads * s.size, s.kv_heads * s.size, s.kv_heads * s.size]
    by_qkv = _matrix_back(flat, y, sizes, w.qkv_bias is not None, w.adapters.get("qkv"))
    return gx, by_norm, [*by_heads, *by_qkv, *by_out]


def _matrix_back(
    g: Tensor,
    y: Tensor,
    sizes: list[int],
    bias: bool,
    adapters: tuple[Adapter | None, ...] | None,
    exact: Tensor | None = None,
) -> list[Tensor]:
    """The gradients of weights that are parts of one matrix, then of their biases; or of the parts' adapters.

    `exact` is the gradient of the outputs in float32, where it is at hand.
    """
    if adapters is not None:
        parts = zip(torch.split(g, sizes, 1), adapters, strict=True)
        return [by for part, adapter in parts if adapter is not None for by in _adapter_back(part, y, adapter)]
    weights = torch.split(ops.product(g.t(), y), sizes)
    if not bias:
        return list(weights)
    wide = torch.promote_types(g.dtype, torch.float32)
    return [*weights, *torch.split((g if exact is None else exact).sum(0, dtype=wide), sizes)]


def _adapter_back(g: Tensor, y: Tensor, adapter: Adapter) -> tuple[Tensor, Tensor]:
    """The gradients of both matrices of an adapter, by products of its rank instead of the gradient of a weight."""
    down, up = adapter.down.to(y.dtype), adapter.up.to(y.dtype)
    return adapter.scale * ops.product((g @ up).t(), y), adapter.scale * ops.product(g.t(), y @ down.t())


def block(x: Tensor, w: LayerWeights, s: BlockShape) -> Tensor:
    """The residual stream [N, D] after a block."""
    result: Tensor = _Block.apply(x, w, s, *w.parameters)  # type: ignore[no-untyped-call]
    return result


def block_kept(
    x: Tensor, w: LayerWeights, s: BlockShape, given: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The residual stream after a block, without gradients, and its keys and values, which begin with those given."""
    q, k, v = _split(_projected(x, w, s)[0], s)
    if given is not None:
        k, v = torch.cat([given[0], k]), torch.cat([given[1], v])
    out, _ = attend(q, k, v, s.levels, s.size**-0.5)
    x = ops.add_linear(x, out.flatten(1), w.out, w.out_bias)
    return _fed(x, w, s)[0], (k, v)


class _Embedded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ids: Tensor, table: Tensor, parameter: Tensor, padding: int) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.rows, ctx.padding = len(table), padding
        return table[ids].to(torch.promote_types(table.dtype, torch.float32))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (ids,) = ctx.saved_tensors
        given = grads[0].contiguous(), ids, ctx.rows, ctx.padding, False
        return None, None, torch.ops.aten.embedding_dense_backward(*given), None


def embedded(ids: Tensor, table: Tensor, parameter: Tensor, padding: int = -1) -> Tensor:
    """Rows of the table in float32; the parameter that it copies receives the gradient, except for row `padding`."""
    result: Tensor = _Embedded.apply(ids, table, parameter, padding)  # type: ignore[no-untyped-call]
    return result


class _Final(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
        y, scale = ops.normed(x, weight, eps, dtype)
        ctx.save_for_backward(x, scale, weight)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, scale, weight = ctx.saved_tensors
        gx, _, by_norm, _ = ops.norm_back(grads[0].contiguous(), x, scale, weight, again=False)
        return gx, by_norm, None, None


def final(x: Tensor, weight: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
    """The last norm of the residual stream, in the compute precision."""
    result: Tensor = _Final.apply(x, weight, eps, dtype)  # type: ignore[no-untyped-call]
    return result
