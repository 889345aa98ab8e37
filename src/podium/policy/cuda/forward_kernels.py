"""The forward pass of attention over runs of queries and keys, more exact than flash attention's.

Flash attention rounds the weights of the values to bfloat16. Here they are the sum of two bfloat16 numbers, at the cost
of a second product, so that a sampler which computes in another order gives nearly the same log-probabilities.
"""

# Triton reads the annotations of a kernel's parameters: no postponed evaluation here.
import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["attend"]


@triton.jit
def _attend(
    q, k, v, out, total, query_edges, key_edges, q_stride, k_stride, v_stride, queries, scale,
    HEADS: tl.constexpr, GROUP: tl.constexpr, SIZE: tl.constexpr, ROOM: tl.constexpr,
    CAUSAL: tl.constexpr, EXACT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    block, head, run = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    first, last = tl.load(query_edges + run), tl.load(query_edges + run + 1)
    begin, end = tl.load(key_edges + run), tl.load(key_edges + run + 1)
    if block * ROWS < last - first:
        row = block * ROWS + tl.arange(0, ROWS)  # of the run
        there = row < last - first
        at, column = tl.arange(0, ROOM), tl.arange(0, COLUMNS)
        mine = (first + row).to(tl.int64)
        query = tl.load(
            q + mine[:, None] * q_stride + head * SIZE + at[None, :],
            mask=there[:, None] & (at < SIZE)[None, :],
            other=0.0,
        )
        top = tl.full([ROWS], -float("inf"), dtype=tl.float32)
        mass = tl.zeros([ROWS], dtype=tl.float32)
        sums = tl.zeros([ROWS, ROOM], dtype=tl.float32)
        count = end - begin
        if CAUSAL:
            count = tl.minimum(count, (block + 1) * ROWS)
        for start in range(0, count, COLUMNS):
            key = start + column
            seen = key < count
            theirs = (begin + key).to(tl.int64)
            inside = seen[:, None] & (at < SIZE)[None, :]
            keys = tl.load(
                k + theirs[:, None] * k_stride + (head // GROUP) * SIZE + at[None, :], mask=inside, other=0.0
            )
            score = tl.dot(query, tl.trans(keys), input_precision="ieee") * scale
            visible = seen[None, :]
            if CAUSAL:
                visible = visible & (key[None, :] <= row[:, None])
            score = tl.where(visible, score, -float("inf"))
            higher = tl.maximum(top, tl.max(score, 1))
            weight = tl.exp(score - higher[:, None])
            fade = tl.exp(top - higher)
            mass = mass * fade + tl.sum(weight, 1)
            values = tl.load(
                v + theirs[:, None] * v_stride + (head // GROUP) * SIZE + at[None, :], mask=inside, other=0.0
            )
            near = weight.to(values.dtype)
            sums = sums * fade[:, None] + tl.dot(near, values, input_precision="ieee")
            if EXACT:
                sums += tl.dot((weight - near.to(tl.float32)).to(values.dtype), values, input_precision="ieee")
            top = higher
        place = out + mine[:, None] * HEADS * SIZE + head * SIZE + at[None, :]
        tl.store(place, (sums / mass[:, None]).to(out.dtype.element_ty), mask=there[:, None] & (at < SIZE)[None, :])
        tl.store(total + head * queries + mine, top + tl.log(mass), mask=there)


def attend(
    q: Tensor, k: Tensor, v: Tensor, query_edges: Tensor, key_edges: Tensor, longest: int, causal: bool, scale: float,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Output [queries, heads, size] in `dtype`, and its log-sums [heads, queries]."""
    queries, heads, size = q.shape
    out = torch.empty(queries, heads, size, dtype=dtype, device=q.device)
    total = torch.empty(heads, queries, dtype=torch.float32, device=q.device)
    rows, columns = (128, 64) if longest > 64 else (64, 64)
    grid = (triton.cdiv(longest, rows), heads, len(query_edges) - 1)
    strides = q.stride(0), k.stride(0), v.stride(0)
    room = max(triton.next_power_of_2(size), 16)
    shape = {"HEADS": heads, "GROUP": heads // k.shape[1], "SIZE": size, "ROOM": room, "CAUSAL": causal}
    exact = q.dtype != torch.float32
    _attend[grid](
        q, k, v, out, total, query_edges, key_edges, *strides, queries, scale, **shape, EXACT=exact,
        ROWS=rows, COLUMNS=columns, num_warps=4 if size <= 64 else 8, num_stages=2,
    )  # fmt: skip
    return out, total
