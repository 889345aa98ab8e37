"""Matrix products and attention of training's forward pass, which must match the sampler's numbers to the bit.

The common arithmetic is in `arithmetic.py`. A matrix library may choose the order of a sum by the sizes of both
factors; here it depends on the weight alone. Tile sizes were measured on an H200.
"""

# Triton reads the annotations of a kernel's parameters: no postponed evaluation here.
import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from podium.policy.cuda import decode_launch
from podium.policy.cuda.arithmetic import BLOCK, CHUNK, COLUMNS, LOWEST, joined, weighed

__all__ = ["add_linear", "attend", "linear"]


@triton.jit
def _sum(
    y_tiles, weight_tiles, row, column, begin, end,
    PRECISION: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """A tile of y weightᵀ over the inner indices from `begin` to `end`."""
    total = tl.zeros((M, N), tl.float32)
    for start in range(begin, end, K):
        other = weight_tiles.load([column, start]).T
        total = tl.dot(y_tiles.load([row, start]), other, total, input_precision=PRECISION)
    return total


@triton.jit
def _linear(
    y_tiles, weight_tiles, bias, out, rows, width, inner,
    BIAS: tl.constexpr, PRECISION: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(width, N)  # neighbours read the same rows
    above, left = tl.program_id(0) // tiles * M, tl.program_id(0) % tiles * N
    total = _sum(y_tiles, weight_tiles, above, left, 0, inner, PRECISION, M, N, K)
    row, column = (above + tl.arange(0, M)).to(tl.int64), left + tl.arange(0, N)
    if BIAS:
        total += tl.load(bias + column, mask=column < width, other=0.0).to(tl.float32)[None, :]
    inside = (row < rows)[:, None] & (column < width)[None, :]
    tl.store(out + row[:, None] * width + column[None, :], total.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _add_linear(
    x, y_tiles, weight_tiles, bias, out, rows, width, inner, cut,
    BIAS: tl.constexpr, PRECISION: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(width, N)
    above, left = tl.program_id(0) // tiles * M, tl.program_id(0) % tiles * N
    row, column = (above + tl.arange(0, M)).to(tl.int64), left + tl.arange(0, N)
    inside = (row < rows)[:, None] & (column < width)[None, :]
    at = row[:, None] * width + column[None, :]
    value = tl.load(x + at, mask=inside, other=0.0)
    for begin in range(0, inner, cut):
        end = tl.minimum(begin + cut, inner)
        part = _sum(y_tiles, weight_tiles, above, left, begin, end, PRECISION, M, N, K)
        if BIAS:  # noqa: SIM102 (known when compiling)
            if begin == 0:
                part += tl.load(bias + column, mask=column < width, other=0.0).to(tl.float32)[None, :]
        value += part
    tl.store(out + at, value, mask=inside)


def _product(kernel: Any, x: tuple[Tensor, ...], y: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor,
             rest: tuple[int, ...], m: int, n: int, warps: int, stages: int) -> Tensor:  # fmt: skip
    (rows, inner), width, k = y.shape, len(weight), 64
    memory = decode_launch.fast_memory(y) // ((m + n) * k * y.element_size())
    factors = TensorDescriptor.from_tensor(y, [m, k]), TensorDescriptor.from_tensor(weight, [n, k])
    kernel[(triton.cdiv(rows, m) * triton.cdiv(width, n),)](
        *x, *factors, y if bias is None else bias, out, rows, width, inner, *rest, BIAS=bias is not None,
        PRECISION=_precision(y), M=m, N=n, K=k, num_warps=warps, num_stages=min(stages, memory),
    )  # fmt: skip
    return out


def linear(y: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """y weightᵀ + bias in the factors' precision."""
    out = torch.empty(len(y), len(weight), dtype=y.dtype, device=y.device)
    return _product(_linear, (), y, weight, bias, out, (), 256, 128, 8, 4)


def add_linear(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x + y weightᵀ + bias in float32."""
    tile = (256, 128, 8, 3) if y.shape[1] >= 2048 else (128, 64, 4, 4)
    return _product(_add_linear, (x,), y, weight, bias, torch.empty_like(x), decode_launch.cut(weight)[:1], *tile)


def _precision(x: Tensor) -> str:
    return "ieee" if x.dtype == torch.float32 else "tf32"  # the latter says nothing about products of 16-bit numbers


@triton.jit
def _attend(
    q, k, v, out, total, edges, paths, path_edges, q_stride, k_stride, v_stride, queries, scale,
    HEADS: tl.constexpr, GROUP: tl.constexpr, SIZE: tl.constexpr, ROOM: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    """Attention of a run of tokens over its path: all tokens before it, then itself."""
    block, head, run = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    first, last = tl.load(edges + run), tl.load(edges + run + 1)
    path, length = tl.load(path_edges + run), tl.load(path_edges + run + 1) - tl.load(path_edges + run)
    if block * ROWS < last - first:
        row = block * ROWS + tl.arange(0, ROWS)  # within the run
        there = row < last - first
        before = length - (last - first)
        position = before + row
        end = tl.minimum(length, before + (block + 1) * ROWS)
        at, column = tl.arange(0, ROOM), tl.arange(0, BLOCK)
        real = (at < SIZE)[None, :]
        mine = (first + row).to(tl.int64)
        place = mine[:, None] * q_stride + head * SIZE + at[None, :]
        query = tl.load(q + place, mask=there[:, None] & real, other=0.0)
        peak = tl.full([ROWS], LOWEST, tl.float32)
        mass = tl.zeros([ROWS], tl.float32)
        sums = tl.zeros([ROWS, ROOM], tl.float32)
        other = (head // GROUP) * SIZE + at[None, :]
        node = tl.load(paths + path + column, mask=column < end, other=0)
        for begin in range(0, end, CHUNK):
            its_peak = tl.full([ROWS], LOWEST, tl.float32)
            its_mass = tl.zeros([ROWS, COLUMNS], tl.float32)
            its_sums = tl.zeros([ROWS, ROOM], tl.float32)
            for start in range(begin, tl.minimum(begin + CHUNK, end), BLOCK):
                key = start + column
                source = node.to(tl.int64)[:, None]
                # Load the indices of the next keys before these keys are needed.
                node = tl.load(paths + path + key + BLOCK, mask=key + BLOCK < end, other=0)
                keys = tl.load(k + source * k_stride + other, mask=real, other=0.0)
                scores = tl.dot(query, tl.trans(keys), input_precision=PRECISION)
                scores = tl.where(key[None, :] <= position[:, None], scores, float("-inf"))
                values = tl.load(v + source * v_stride + other, mask=real, other=0.0)
                its_peak, its_mass, its_sums = weighed(scores, values, its_peak, its_mass, its_sums, scale, PRECISION)
            if LONG:
                peak, mass, sums = joined(peak, mass, sums, its_peak, tl.max(its_mass, 1), its_sums, scale)
            else:  # there is one chunk
                peak, mass, sums = its_peak, tl.max(its_mass, 1), its_sums
        place = out + mine[:, None] * HEADS * SIZE + head * SIZE + at[None, :]
        tl.store(place, (sums / mass[:, None]).to(out.dtype.element_ty), mask=there[:, None] & real)
        log_sum = (peak * scale + tl.log2(mass)) * 0.6931471805599453
        tl.store(total + head * queries + mine, log_sum, mask=there)


def attend(
    q: Tensor, k: Tensor, v: Tensor, edges: Tensor, paths: Tensor, path_edges: Tensor, longest: tuple[int, int],
    scale: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Output [queries, heads, size] and log-sum-exps [heads, queries]; `longest` is that of runs and of paths."""
    queries, heads, size = q.shape
    out = torch.empty(queries, heads, size, dtype=q.dtype, device=q.device)
    total = torch.empty(heads, queries, dtype=torch.float32, device=q.device)
    room = max(triton.next_power_of_2(size), 16)
    rows = 16 if q.dtype == torch.float32 else 64  # in float32 more do not fit in the registers
    grid = (triton.cdiv(longest[0], rows), heads, len(edges) - 1)
    strides = q.stride(0), k.stride(0), v.stride(0)
    shape = {"HEADS": heads, "GROUP": heads // k.shape[1], "SIZE": size, "ROOM": room}
    _attend[grid](
        q, k, v, out, total, edges, paths, path_edges, *strides, queries, scale / math.log(2.0), **shape,
        PRECISION=_precision(q), ROWS=rows, BLOCK=BLOCK, CHUNK=CHUNK, LONG=longest[1] > CHUNK,
        num_warps=4, num_stages=2,
    )  # fmt: skip
    return out, total
