"""The native kernels as differentiable operations, for packed passes over float32 tensors on a CPU."""

from __future__ import annotations

from ctypes import byref
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from podium.policy.native import LANES, TEAM, WORK, Choose, Gate, GateBack, Norm, NormBack, Span, library, place

__all__ = ["Spans", "attention", "chosen", "gated", "normed"]


@dataclass(frozen=True)
class Spans:
    """Stretches of queries, each with the path of nodes that its queries attend to. All int64."""

    path: Tensor  # the nodes of all paths
    begin: Tensor  # [spans + 1] where each path begins
    first: Tensor  # [spans] the index in its path of a span's first query
    offset: Tensor  # [spans] where its attention weights begin
    total: int  # attention weights per head
    longest: int  # length of the longest path

    @classmethod
    def of(cls, stretches: list[tuple[int, Any]]) -> Spans:
        """From (first, path) pairs."""
        first = torch.tensor([start for start, _ in stretches])
        lengths = torch.tensor([len(path) for _, path in stretches])
        # One row of weights per query; rows are padded to whole teams, their lengths to whole groups of LANES.
        sizes = -(-(lengths - first) // TEAM) * TEAM * (-(-lengths // LANES) * LANES)
        path = torch.cat([torch.from_numpy(path) for _, path in stretches])
        begin = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)])
        offset = sizes.cumsum(0) - sizes
        return cls(path, begin, first, offset, int(sizes.sum()), int(lengths.max()))


def _call(name: str, argument: Any) -> None:
    kernels = library()
    assert kernels is not None
    kernels[f"podium_{name}"](byref(argument))


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, rope: Tensor, position: Tensor, spans: Spans, heads: int, kv: int, size: int
    ) -> Tensor:
        nodes = qkv.shape[0]
        ctx.spans, ctx.shape = spans, (heads, kv, size)
        out, turned = qkv.new_zeros(nodes, heads * size), qkv.new_empty(heads + 2 * kv, nodes, size)
        weight = qkv.new_empty(heads, spans.total)
        _span("span", qkv, rope, position, spans, ctx.shape, out, turned, weight, None)
        ctx.save_for_backward(turned, rope, position, weight)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        turned, rope, position, weight = ctx.saved_tensors
        result = turned.new_empty(turned.shape[1], turned.shape[0] * turned.shape[2])
        slope, g = torch.zeros_like(turned), grads[0].contiguous()
        _span("span_back", result, rope, position, ctx.spans, ctx.shape, g, turned, weight, slope)
        return result, *[None] * 6


def _span(
    kernel: str,
    qkv: Tensor,
    rope: Tensor,
    position: Tensor,
    spans: Spans,
    shape: tuple[int, int, int],
    out: Tensor,
    turned: Tensor,
    weight: Tensor,
    slope: Tensor | None,
) -> None:
    heads, kv, size = shape
    by_head = qkv.new_zeros(heads, qkv.shape[0], size)
    work = qkv.new_empty(kv, WORK, spans.longest + LANES, size)
    index = (position, spans.path, spans.begin, spans.first, spans.offset)
    pointers = [place(x) for x in (qkv, rope, *index, out, turned, weight, by_head)]
    sizes = (qkv.shape[0], len(spans.first), heads, kv, size, spans.total, spans.longest, torch.get_num_threads())
    _call(kernel, Span(*pointers, None if slope is None else place(slope), place(work), *sizes, size**-0.5))


class _Normed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        rows, width = x.shape
        y, scale = torch.empty_like(x), x.new_empty(rows)
        _call("norm", Norm(*map(place, (x, weight, y, scale)), rows, width, torch.get_num_threads(), eps))
        ctx.save_for_backward(x, weight, scale)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, scale = ctx.saved_tensors
        gx, gw, g = torch.empty_like(x), torch.zeros_like(weight), grads[0].contiguous()
        _call("norm_back", NormBack(*map(place, (x, weight, scale, g, gx, gw)), *x.shape))
        return gx, gw if ctx.needs_input_grad[1] else None, None


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        rows, width = x.shape[0], x.shape[1] // 2
        y = x.new_empty(rows, width)
        _call("gate", Gate(place(x), place(y), rows, width, torch.get_num_threads()))
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        gx, g = torch.empty_like(x), grads[0].contiguous()
        _call("gate_back", GateBack(*map(place, (x, g, gx)), x.shape[0], x.shape[1] // 2, torch.get_num_threads()))
        return gx


class _Chosen(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, ids: Tensor) -> Tensor:
        rows, vocabulary = logits.shape
        logp, total = logits.new_empty(rows), logits.new_empty(rows)
        tensors = map(place, (logits, ids, logp, total))
        _call("choose", Choose(*tensors, None, rows, vocabulary, torch.get_num_threads()))
        ctx.save_for_backward(logits, ids, total)
        return logp

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        logits, ids, total = ctx.saved_tensors
        slope, g = torch.empty_like(logits), grads[0].contiguous()
        tensors = map(place, (logits, ids, g, total, slope))
        _call("choose_back", Choose(*tensors, *logits.shape, torch.get_num_threads()))
        return slope, None


def attention(qkv: Tensor, rope: Tensor, position: Tensor, spans: Spans, heads: int, kv: int, size: int) -> Tensor:
    """Attention along paths, of queries, keys and values [nodes, (heads + 2 kv) · size], with rotary embedding."""
    result: Tensor = _Attention.apply(qkv, rope, position, spans, heads, kv, size)  # type: ignore[no-untyped-call]
    return result


def normed(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """w · x / √(mean x² + ε) of each row."""
    result: Tensor = _Normed.apply(x, weight, eps)  # type: ignore[no-untyped-call]
    return result


def gated(x: Tensor) -> Tensor:
    """silu(a) · b of rows [a, b]."""
    result: Tensor = _Gated.apply(x)  # type: ignore[no-untyped-call]
    return result


def chosen(logits: Tensor, ids: Tensor) -> Tensor:
    """The log-probability of one token in each row of logits."""
    result: Tensor = _Chosen.apply(logits, ids)  # type: ignore[no-untyped-call]
    return result
