"""Attention over a packed trie, forward and backward: no padding, and shared prefixes are read once.

On a GPU the forward pass follows the path of each segment, in the same order as the sampler. Elsewhere each part of
`TrieLevels` gives outputs and log-sum-exps over the keys that it saw, by which the parts are combined. The backward
pass combines nothing: given the combined output and log-sum-exp, the derivative of every part is that of plain (flash)
attention on its own queries and keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from podium.policy.cuda import ops
from podium.policy.forward.trie_levels import TrieLevel, TrieLevels

__all__ = ["attend", "attend_back", "attention"]

FIXED_ORDER = True


def attend(q: Tensor, k: Tensor, v: Tensor, levels: TrieLevels, scale: float) -> tuple[Tensor, Tensor]:
    """Output [N, heads, size] of queries over their paths, and its log-sum-exp [heads, N]; given keys come first."""
    kernels = ops.kernels_for(q, "forward_kernels")
    if kernels is not None:
        longest = levels.within.longest[0], levels.longest_path
        path = levels.paths, levels.path_edges
        result: tuple[Tensor, Tensor] = kernels.attend(q, k, v, levels.within.query_edges, *path, longest, scale)
        return result
    if levels.given:
        return _plain(q, k, v, _trails(levels), True, scale, q.dtype)
    # Parts that are combined are rounded once, afterwards.
    wide = torch.promote_types(q.dtype, torch.float32) if levels.ancestors else q.dtype
    out, total = _part(q, k, v, levels.within, scale, wide)
    for level in levels.ancestors:
        part, own = _part(*_taken(q, k, v, level), level, scale, wide)
        ops.join(out, total, part, own, _places(level.queries))
    return out.to(q.dtype), total


def attend_back(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, total: Tensor, levels: TrieLevels, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of queries, keys and values."""
    assert not levels.given  # the parts do not include given keys
    gq, gk, gv = _part_back(g, q, k, v, out, total, levels.within, scale)
    for level in levels.ancestors:
        queries, keys = _places(level.queries), _places(level.keys)
        own = g.index_select(0, queries), out.index_select(0, queries), total.index_select(1, queries)
        parts = _part_back(own[0], *_taken(q, k, v, level), *own[1:], level, scale)
        gq.index_add_(0, queries, parts[0])  # every place once
        gk.index_add_(0, keys, parts[1])
        gv.index_add_(0, keys, parts[2])
    return gq, gk, gv


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, levels: TrieLevels, scale: float) -> Tensor:
        out, total = attend(q, k, v, levels, scale)
        ctx.levels, ctx.scale = levels, scale
        ctx.save_for_backward(q, k, v, out, total)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, total = ctx.saved_tensors
        return (*attend_back(grads[0].contiguous(), q, k, v, out, total, ctx.levels, ctx.scale), None, None)


def attention(q: Tensor, k: Tensor, v: Tensor, levels: TrieLevels, scale: float | None = None) -> Tensor:
    """Attention of queries [N, heads, size] over keys and values [N, key-value heads, size] along the paths."""
    result: Tensor = _Attention.apply(q, k, v, levels, q.shape[-1] ** -0.5 if scale is None else scale)  # type: ignore[no-untyped-call]
    return result


def _places(index: Tensor | None) -> Tensor:
    assert index is not None
    return index


def _taken(q: Tensor, k: Tensor, v: Tensor, level: TrieLevel) -> tuple[Tensor, Tensor, Tensor]:
    queries, keys = _places(level.queries), _places(level.keys)
    return q.index_select(0, queries), k.index_select(0, keys), v.index_select(0, keys)


def _flash(q: Tensor) -> bool:
    return q.is_cuda and q.dtype in (torch.bfloat16, torch.float16)


def _part(q: Tensor, k: Tensor, v: Tensor, level: TrieLevel, scale: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    edges = level.query_edges, level.key_edges
    if not _flash(q):
        return _plain(q, k, v, _runs(level), level.causal, scale, dtype)
    out, total, *_ = torch.ops.aten._flash_attention_forward(
        q, k, v, *edges, *level.longest, 0.0, level.causal, False, scale=scale
    )
    return out.to(dtype), total


def _part_back(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, total: Tensor, level: TrieLevel, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    if not _flash(q):
        return _plain_back(g, q, k, v, out, total, level, scale)
    edges = level.query_edges, level.key_edges
    with _fixed_order():
        gq, gk, gv = torch.ops.aten._flash_attention_backward(
            g, q, k, v, out, total, *edges, *level.longest, 0.0, level.causal, *_unused(q.device), scale=scale
        )
    return gq, gk, gv


@cache
def _unused(device: torch.device) -> tuple[Tensor, Tensor]:
    """Placeholders for the random state of dropout, which is not used."""
    return torch.zeros(2, dtype=torch.uint64, device=device), torch.empty(0, device=device)


@contextmanager
def _fixed_order() -> Iterator[None]:
    """Sum in the same order every time, so that a run is reproducible to the bit: flash attention obeys this flag."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    filled = torch._C._get_deterministic_fill_uninitialized_memory()
    torch._C._set_deterministic_fill_uninitialized_memory(False)
    torch._C._set_deterministic_algorithms(FIXED_ORDER, warn_only=False)
    try:
        yield
    finally:
        torch._C._set_deterministic_algorithms(before[0], warn_only=before[1])
        torch._C._set_deterministic_fill_uninitialized_memory(filled)


# -- the same, run by run, for a CPU and for float32 -------------------------------------------------------------------


def _runs(level: TrieLevel) -> list[tuple[slice, slice]]:
    a, b = pairwise(level.query_edges.tolist()), pairwise(level.key_edges.tolist())
    return [(slice(*x), slice(*y)) for x, y in zip(a, b, strict=True)]


def _trails(levels: TrieLevels) -> list[tuple[slice, Tensor]]:
    """Runs of queries and all nodes that they attend to, of which they are the last."""
    edges, paths = levels.path_edges.tolist(), levels.paths.long()
    return [(a, paths[slice(*b)]) for (a, _), b in zip(_runs(levels.within), pairwise(edges), strict=True)]


def _scores(q: Tensor, k: Tensor, causal: bool, scale: float) -> Tensor:
    """[heads, Q, K] in float32 or better; if `causal`, queries are those of the last keys."""
    exact = ops.is_low(q) and not q.is_cuda  # as products are in `ops`
    wide = torch.float64 if exact else torch.promote_types(q.dtype, torch.float32)
    repeated = k.repeat_interleave(q.shape[1] // k.shape[1], 1).to(wide)
    scores = torch.einsum("qhd,khd->hqk", q.to(wide), repeated) * scale
    if causal:
        hidden = torch.ones(scores.shape[1:], dtype=torch.bool, device=q.device).triu(1 + len(k) - len(q))
        scores = scores.masked_fill(hidden, float("-inf"))
    return scores


def _plain(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    runs: Sequence[tuple[slice, slice | Tensor]],
    causal: bool,
    scale: float,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    out = torch.empty_like(q, dtype=dtype, memory_format=torch.contiguous_format)
    total = q.new_empty(q.shape[1], q.shape[0], dtype=torch.promote_types(q.dtype, torch.float32))
    for a, b in runs:
        scores = _scores(q[a], k[b], causal, scale)
        total[:, a] = scores.logsumexp(-1)
        values = v[b].repeat_interleave(q.shape[1] // v.shape[1], 1).to(scores.dtype)
        out[a] = torch.einsum("hqk,khd->qhd", scores.softmax(-1), values).to(dtype)
    return out, total


def _plain_back(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, total: Tensor, level: TrieLevel, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    gq, gk, gv = (torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))
    shared = q.shape[1] // k.shape[1]
    for a, b in _runs(level):
        p = (_scores(q[a], k[b], level.causal, scale) - total[:, a, None]).exp()
        slope, heads = g[a].to(p.dtype), (len(k[b]), k.shape[1], shared, k.shape[2])
        values, keys = (x[b].repeat_interleave(shared, 1).to(p.dtype) for x in (v, k))
        gv[b] = torch.einsum("hqk,qhd->khd", p, slope).view(heads).sum(2).to(v.dtype)
        along = (slope * out[a].to(p.dtype)).sum(-1).t()[:, :, None]
        gs = p * (torch.einsum("qhd,khd->hqk", slope, values) - along) * scale
        gq[a] = torch.einsum("hqk,khd->qhd", gs, keys).to(q.dtype)
        gk[b] = torch.einsum("hqk,qhd->khd", gs, q[a].to(p.dtype)).view(heads).sum(2).to(k.dtype)
    return gq, gk, gv
