"""Triton kernels for the operations between the matrix products of a training pass, each in one pass over memory."""

# Triton reads the annotations of a kernel's parameters: no postponed evaluation here.
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from podium.policy.cuda import arithmetic as same

__all__ = ["gate_back", "gated", "head_back", "head_read", "norm_back", "normed", "turn"]

COLUMNS = 4096  # tokens of the vocabulary that a program of the head holds at a time
PROGRAMS = 1024  # programs among which the rows of a norm's backward pass are divided


@triton.jit
def _normed(x, weight, y, scale, rows, share, eps, WIDTH: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    inside = (row < rows)[:, None] & (column < WIDTH)[None, :]
    at = row[:, None].to(tl.int64) * WIDTH + column[None, :]
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    factor = same.norm_scale(same.squares(value, 1), share, eps)
    w = tl.load(weight + column, mask=column < WIDTH, other=0.0).to(tl.float32)
    out = value * factor[:, None] * w[None, :]
    tl.store(y + at, out.to(y.dtype.element_ty), mask=inside)
    tl.store(scale + row, factor, mask=row < rows)


@triton.jit
def _norm_back(
    g, x, scale, weight, residual, gx, low, y, gw, rows, programs,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    RESIDUAL: tl.constexpr, LOW: tl.constexpr, AGAIN: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, BLOCK)
    within = column < WIDTH
    w = tl.load(weight + column, mask=within, other=0.0).to(tl.float32)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for first in range(tl.program_id(0) * ROWS, rows, programs * ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & within[None, :]
        at = row[:, None].to(tl.int64) * WIDTH + column[None, :]
        slope = tl.load(g + at, mask=inside, other=0.0).to(tl.float32)
        factor = tl.load(scale + row, mask=row < rows, other=0.0)
        unit = tl.load(x + at, mask=inside, other=0.0).to(tl.float32) * factor[:, None]
        total += tl.sum(slope * unit, 0)
        inner = slope * w[None, :]
        along = tl.sum(inner * unit, 1) / WIDTH
        out = (inner - unit * along[:, None]) * factor[:, None]
        if RESIDUAL:
            out += tl.load(residual + at, mask=inside, other=0.0)
        tl.store(gx + at, out.to(gx.dtype.element_ty), mask=inside)
        if LOW:
            tl.store(low + at, out.to(low.dtype.element_ty), mask=inside)
        if AGAIN:
            tl.store(y + at, (unit * w[None, :]).to(y.dtype.element_ty), mask=inside)
    tl.store(gw + tl.program_id(0) * WIDTH + column, total, mask=within)


@triton.jit
def _gated(x, y, width, BLOCK: tl.constexpr):
    row, column = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    gate = tl.load(x + row * 2 * width + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(x + row * 2 * width + width + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * width + column, same.gated(gate, up).to(y.dtype.element_ty), mask=inside)


@triton.jit
def _gate_back(g, x, gx, y, width, BLOCK: tl.constexpr):
    row, column = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    slope = tl.load(g + row * width + column, mask=inside, other=0.0).to(tl.float32)
    gate = tl.load(x + row * 2 * width + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(x + row * 2 * width + width + column, mask=inside, other=0.0).to(tl.float32)
    share = tl.sigmoid(gate)
    active = gate * share
    down = slope * up * share * (1.0 + gate * (1.0 - share))
    tl.store(gx + row * 2 * width + column, down.to(gx.dtype.element_ty), mask=inside)
    tl.store(gx + row * 2 * width + width + column, (slope * active).to(gx.dtype.element_ty), mask=inside)
    tl.store(y + row * width + column, (active * up).to(y.dtype.element_ty), mask=inside)


@triton.jit
def _turn(
    x, cos, sin, position, stride, sign,
    HEADS: tl.constexpr, HALF: tl.constexpr, ROOM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head, column = tl.arange(0, ROOM), tl.arange(0, BLOCK)
    inside = (head < HEADS)[:, None] & (column < HALF)[None, :]
    place = tl.load(position + row)
    c = tl.load(cos + place * HALF + column, mask=column < HALF, other=0.0)[None, :]
    s = tl.load(sin + place * HALF + column, mask=column < HALF, other=0.0)[None, :] * sign
    at = x + row * stride + head[:, None] * (2 * HALF) + column[None, :]
    a = tl.load(at, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(at + HALF, mask=inside, other=0.0).to(tl.float32)
    a, b = same.turned(a, b, c, s)
    tl.store(at, a.to(x.dtype.element_ty), mask=inside)
    tl.store(at + HALF, b.to(x.dtype.element_ty), mask=inside)


@triton.jit
def _head_read(logits, ids, total, entropy, chosen, width, sharpness, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    line = logits + row * width
    top, mass, moment = -float("inf"), 0.0, 0.0
    for first in range(0, width, BLOCK):
        column = first + tl.arange(0, BLOCK)
        inside = column < width
        value = tl.load(line + column, mask=inside, other=-float("inf")) * sharpness
        higher = tl.maximum(top, tl.max(value, 0))
        weight = tl.exp(value - higher)
        fade = tl.exp(top - higher)
        mass = mass * fade + tl.sum(weight, 0)
        moment = moment * fade + tl.sum(tl.where(inside, weight * value, 0.0), 0)
        top = higher
    whole = top + tl.log(mass)
    tl.store(total + row, whole)
    tl.store(entropy + row, whole - moment / mass)
    tl.store(chosen + row, tl.load(line + tl.load(ids + row)) * sharpness)


@triton.jit
def _head_back(logits, ids, total, entropy, by_logp, by_entropy, slope, width, sharpness, BLOCK: tl.constexpr):
    row, column = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    value = tl.load(logits + row * width + column, mask=inside, other=0.0) * sharpness
    log_p = value - tl.load(total + row)
    p = tl.exp(log_p)
    of_logp, of_entropy = tl.load(by_logp + row), tl.load(by_entropy + row)
    here = tl.where(column == tl.load(ids + row), 1.0, 0.0)
    out = of_logp * (here - p) - of_entropy * p * (log_p + tl.load(entropy + row))
    tl.store(slope + row * width + column, (out * sharpness).to(slope.dtype.element_ty), mask=inside)


def _shape(width: int) -> dict[str, Any]:
    block = triton.next_power_of_2(width)
    return {"WIDTH": width, "ROWS": max(1, 2048 // block), "BLOCK": block, "num_warps": 4 if block <= 2048 else 8}


def normed(x: Tensor, weight: Tensor, eps: float, y: Tensor, scale: Tensor) -> None:
    rows, width = x.shape
    shape = _shape(width)
    _normed[(triton.cdiv(rows, shape["ROWS"]),)](x, weight, y, scale, rows, 1.0 / width, eps, **shape)


def norm_back(
    g: Tensor, x: Tensor, scale: Tensor, weight: Tensor, residual: Tensor | None, gx: Tensor,
    low: Tensor | None, y: Tensor | None,
) -> Tensor:  # fmt: skip
    """Writes gx, its copy in a lower precision and the recomputed output of the norm; returns the weight's gradient."""
    rows, width = x.shape
    shape = _shape(width)
    programs = min(PROGRAMS, triton.cdiv(rows, shape["ROWS"]))
    gw = torch.empty(programs, width, dtype=torch.float32, device=x.device)
    flags = {"RESIDUAL": residual is not None, "LOW": low is not None, "AGAIN": y is not None}
    given = [gx if t is None else t for t in (residual, low, y)]
    _norm_back[(programs,)](g, x, scale, weight, given[0], gx, given[1], given[2], gw, rows, programs, **shape, **flags)
    return gw.sum(0)


def gated(x: Tensor, y: Tensor) -> None:
    rows, width = y.shape
    _gated[(rows, triton.cdiv(width, 2048))](x, y, width, BLOCK=2048, num_warps=8)


def gate_back(g: Tensor, x: Tensor, gx: Tensor, y: Tensor) -> None:
    rows, width = y.shape
    _gate_back[(rows, triton.cdiv(width, 2048))](g, x, gx, y, width, BLOCK=2048, num_warps=8)


def turn(x: Tensor, cos: Tensor, sin: Tensor, position: Tensor, heads: int, sign: float) -> None:
    half = cos.shape[1]
    room, block = triton.next_power_of_2(heads), triton.next_power_of_2(half)
    _turn[(x.shape[0],)](x, cos, sin, position, x.stride(0), sign, HEADS=heads, HALF=half, ROOM=room, BLOCK=block)


def head_read(logits: Tensor, ids: Tensor, sharpness: float, total: Tensor, entropy: Tensor, chosen: Tensor) -> None:
    rows, width = logits.shape
    _head_read[(rows,)](logits, ids, total, entropy, chosen, width, sharpness, BLOCK=COLUMNS, num_warps=8)


def head_back(
    logits: Tensor, ids: Tensor, total: Tensor, entropy: Tensor, by_logp: Tensor, by_entropy: Tensor,
    sharpness: float, slope: Tensor,
) -> None:  # fmt: skip
    rows, width = logits.shape
    grid = rows, triton.cdiv(width, COLUMNS)
    _head_back[grid](
        logits, ids, total, entropy, by_logp, by_entropy, slope, width, sharpness, BLOCK=COLUMNS, num_warps=8
    )
