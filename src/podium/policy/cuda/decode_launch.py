"""The launches of a decode step: each function calls one kernel on whole tensors.

`decode_reference.py` has the same functions in plain torch. Tensors may have more rows than a step
uses; products work on whole tiles of rows, so the number of rows is a multiple of `ROWS`.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import triton
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from podium.policy.cuda import decode_attention, decode_kernels, sampling_kernels, truncation_kernels
from podium.policy.cuda.arithmetic import BLOCK, CHUNK
from podium.policy.cuda.decode_reference import ALIVE, SETTINGS

__all__ = [
    *("assemble", "attend", "choose", "cut", "cuts", "divide", "embed", "fast_memory", "gate"),
    *("parts", "product", "project", "score", "settle", "truncate", "warm"),
]

ROWS = 256
VOCABULARY_TILE = 128
LANES = 16  # the least number of rows that the matrix units take
OWN = 4  # rows whose chunks one program of `divide` places
AT_ONCE = 6  # programs of attention on a multiprocessor, with heads of size 64
CANDIDATES = 8192  # tokens among which a program searches for the last one that a filter keeps
SAMPLED = 4096  # tokens in the sample that narrows the search, if there are more candidates


@dataclass(frozen=True)
class LaunchShape:
    """How a product is tiled and pipelined. It never depends on the number of rows."""

    m: int
    n: int
    k: int
    warps: int
    stages: int
    cut: int = 0  # roughly how many terms of a sum one program adds; 0: all
    fetch: bool = True  # prefetch weights while the previous kernel still runs


# Measured on an H200, with 256 rows of models of 135M, 0.5B, 1.5B, 3B and 7B weights.
SHAPES = {
    "project": LaunchShape(64, 0, 128, 4, 4),
    "project, huge": LaunchShape(128, 0, 64, 8, 5, fetch=False),
    "product": LaunchShape(64, 32, 128, 4, 5),
    "product, long": LaunchShape(64, 64, 128, 4, 4, cut=1024),
    "product, large": LaunchShape(128, 64, 64, 4, 5, cut=1216),
    "product, huge": LaunchShape(128, 128, 64, 8, 4, cut=2432, fetch=False),
    "product, vast": LaunchShape(128, 256, 64, 8, 3, cut=2432, fetch=False),
    "gate": LaunchShape(64, 32, 128, 4, 3),
    "gate, large": LaunchShape(64, 64, 64, 4, 3, fetch=False),
    "gate, vast": LaunchShape(128, 128, 64, 8, 3, fetch=False),
    "score": LaunchShape(128, VOCABULARY_TILE, 64, 4, 3, fetch=False),
    "attend": LaunchShape(LANES, 0, 0, 2, 3, fetch=False),
}
# From how many weights of a matrix on a kernel has another shape.
TIERS = {
    "project": {"huge": 10 << 20},
    "product": {"large": 1 << 21, "huge": 10 << 20, "vast": 20 << 20},
    "gate": {"large": 1 << 21, "vast": 64 << 20},
}
LONG = 1536  # terms of a sum
OVERLAP = os.environ.get("PODIUM_CUDA_OVERLAP", "1") != "0"  # a kernel launches while its predecessor ends


def _shape(kernel: str, weight: Tensor) -> LaunchShape:
    reached = [tier for tier, least in TIERS[kernel].items() if weight.numel() > least]
    if reached:
        return SHAPES[f"{kernel}, {reached[-1]}"]
    return SHAPES["product, long" if kernel == "product" and weight.shape[1] >= LONG else kernel]


def _fetched(shape: LaunchShape, length: int, weight: Tensor) -> int:
    """Cache lines of 128 bytes that so many numbers take, as a power of two; 0: they are not prefetched."""
    return _power(max(1, -(-length * weight.element_size() // 128))) if shape.fetch else 0


@cache
def _device(index: int) -> tuple[bool, int, int]:
    """Whether kernels can overlap on this GPU, the bytes of shared memory per program, and its multiprocessors."""
    properties: Any = torch.cuda.get_device_properties(index)
    memory = getattr(properties, "shared_memory_per_block_optin", 48 << 10)
    return properties.major >= 9, memory, properties.multi_processor_count


def fast_memory(x: Tensor) -> int:
    """Bytes of shared memory per program on the device of x."""
    return _device(x.device.index)[1] if x.is_cuda else 1 << 20


def _options(shape: LaunchShape, x: Tensor, columns: int = 0) -> dict[str, Any]:
    """Launch options; a kernel that multiplies tiles of so many columns gets as many pipeline stages as fit."""
    able, memory = x.is_cuda and _device(x.device.index)[0], fast_memory(x)
    overlap, size = OVERLAP and able, x.element_size()
    warps = shape.warps * (2 if columns and size == 4 else 1)
    stages = min(shape.stages, memory // ((shape.m + columns) * shape.k * size)) if columns else shape.stages
    extra = {"launch_pdl": True} if overlap else {}
    return {"num_warps": warps, "num_stages": max(stages, 1), "PDL": overlap, **extra}


def _tiles(x: Tensor, rows: int, columns: int) -> TensorDescriptor:
    """A matrix as the copy engine reads it; beyond its edges it reads 0."""
    return TensorDescriptor.from_tensor(x, [rows, columns])


def _precision(x: Tensor) -> str:
    return "ieee" if x.dtype == torch.float32 else "tf32"  # the latter says nothing about products of 16-bit numbers


def _power(n: int) -> int:
    return 1 << (n - 1).bit_length()


SMALL = LaunchShape(0, 0, 0, 4, 1)
WIDE = LaunchShape(0, 0, 0, 8, 1)


def cut(weight: Tensor) -> tuple[int, int]:
    """How many terms a part of a product sums, and how many parts there are."""
    inner, shape = weight.shape[1], _shape("product", weight)
    parts = max(1, round(inner / (shape.cut or inner)))
    size = -(-inner // (parts * shape.k)) * shape.k
    return size, -(-inner // size)


def embed(rows: int, token: Tensor, table: Tensor, x: Tensor) -> None:
    """x = table[token]."""
    width, options = x.shape[1], _options(SMALL, x)
    options.pop("launch_pdl", None)
    decode_kernels.embed[(rows,)](token, table, x, width, WIDTH=_power(width), **options)


def settle(rows: int, x: Tensor, parts: Tensor, norm: Tensor, y: Tensor, eps: float) -> None:
    """x += the sum of parts [part, row, width]; y = norm(x)."""
    count, room, width = parts.shape
    decode_kernels.settle[(rows,)](
        *(x, parts if count else x, norm, y, room, width, 1.0 / width, eps),
        PARTS=count,
        WIDTH=_power(width),
        **_options(SMALL, x),
    )


def project(
    rows: int,
    y: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    head_norms: tuple[Tensor, Tensor] | None,
    rope: tuple[Tensor, Tensor],
    position: Tensor,
    pages: Tensor,
    pool: Tensor,
    q: Tensor,
    eps: float,
) -> None:
    """q [row, heads · size] of normalised rows; their keys and values go to pool [2, pages, kv, page, size]."""
    _, count, kv, page, size = pool.shape
    width, shape = y.shape[1], _shape("project", weight)
    heads = q.shape[1] // size
    q_norm, k_norm = head_norms or (y, y)
    decode_kernels.project[(triton.cdiv(rows, shape.m), heads + 2 * kv)](
        *(_tiles(y, shape.m, shape.k), _tiles(weight, size // 2, shape.k)),
        *(weight, y if bias is None else bias, q_norm, k_norm, *rope, position, pages, pool, q),
        *(width, pages.shape[1], count, heads, kv, eps),
        HALF=size // 2,
        PAGE=page,
        BIAS=bias is not None,
        HEAD_NORM=head_norms is not None,
        PRECISION=_precision(q),
        M=shape.m,
        K=shape.k,
        LINES=_fetched(shape, width, weight),
        **_options(shape, y, size),
    )


def divide(rows: int, position: Tensor, parts: tuple[Tensor, ...], chunks: int) -> None:
    """List the chunks of keys of rows whose new tokens are at these positions, for `attend`."""
    shape = {"ROWS": _power(rows), "OWN": OWN, "CHUNK": CHUNK}
    decode_attention.divide[(triton.cdiv(rows, OWN),)](position, *parts[-2:], rows, chunks, **shape)


def attend(
    rows: int, q: Tensor, pool: Tensor, pages: Tensor, out: Tensor, parts: tuple[Tensor, ...], chunks: int
) -> None:
    """Attention of each row's heads over its keys, those that `divide` listed: chunks · CHUNK at most."""
    _, count, kv, page, size = pool.shape
    group, options = q.shape[1] // size // kv, _options(SHAPES["attend"], q)
    head = size * q.element_size()  # bytes
    options["num_warps"] *= max(1, head // 128)
    room = fast_memory(q) - 2 * LANES * (head + 4 * BLOCK)  # besides the queries and their weights
    wanted = options["num_stages"] - (head > 128)  # with heads of size 128 one stage less is faster
    options["num_stages"] = max(1, min(wanted, 1 + room // (2 * BLOCK * head)))
    decode_attention.attend[(rows * chunks * kv,)](
        *(q, pool, pages, out, *parts[:-1], size**-0.5 / math.log(2.0)),
        *(pages.shape[1], count, kv, group, chunks),
        LANES=max(LANES, _power(group)),
        SIZE=size,
        PAGE=page,
        BLOCK=BLOCK,
        CHUNK=CHUNK,
        PRECISION=_precision(q),
        **options,
    )


def parts(rows: int, heads: int, kv: int, size: int, chunks: int, device: torch.device) -> tuple[Tensor, ...]:
    """Buffers with which `attend` combines chunks; the last two are the list of chunks and their order by length."""
    lanes, room = max(LANES, _power(heads // kv)), rows * chunks
    processors = _device(device.index)[2] if device.type == "cuda" else 1
    order = torch.arange(room, dtype=torch.int32)
    if chunks > 1:
        at_once = min(room, processors * max(1, AT_ONCE * 64 // size) // kv)
        order[:at_once] = order[torch.randperm(at_once, generator=torch.Generator().manual_seed(0))]
    return (
        torch.empty((rows, chunks, heads, size), device=device),
        torch.empty((rows, kv, chunks, lanes), device=device),
        torch.empty((rows, kv, chunks, lanes), device=device),
        torch.zeros((rows, kv), dtype=torch.int32, device=device),
        torch.zeros((3, room), dtype=torch.int32, device=device),
        order.to(device),
    )


def product(rows: int, y: Tensor, weight: Tensor, bias: Tensor | None, parts: Tensor) -> None:
    """The parts [part, row, width] of y weightᵀ + bias."""
    (count, room, width), inner = parts.shape, y.shape[1]
    shape, size = _shape("product", weight), cut(weight)[0]
    decode_kernels.product[(triton.cdiv(rows, shape.m), triton.cdiv(width, shape.n), count)](
        *(_tiles(y, shape.m, shape.k), _tiles(weight, shape.n, shape.k)),
        *(weight, y if bias is None else bias, parts, room, width, inner, size),
        BIAS=bias is not None,
        PRECISION=_precision(y),
        M=shape.m,
        N=shape.n,
        K=shape.k,
        LINES=_fetched(shape, size, weight),
        **_options(shape, y, shape.n),
    )


def gate(rows: int, y: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> None:
    """silu(a) · b of the two halves of y weightᵀ + bias."""
    inner, width = out.shape[1], y.shape[1]
    shape = _shape("gate", weight)
    decode_kernels.gate[(triton.cdiv(rows, shape.m), triton.cdiv(inner, shape.n))](
        *(
            _tiles(y, shape.m, shape.k),
            _tiles(weight[:inner], shape.n, shape.k),
            _tiles(weight[inner:], shape.n, shape.k),
        ),
        *(weight, y if bias is None else bias, out, width, inner),
        BIAS=bias is not None,
        PRECISION=_precision(y),
        M=shape.m,
        N=shape.n,
        K=shape.k,
        LINES=_fetched(shape, width, weight),
        **_options(shape, y, 2 * shape.n),
    )


def score(
    rows: int,
    y: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    temperature: Tensor,
    logits: Tensor,
    statistics: tuple[Tensor, Tensor, Tensor],
) -> None:
    """Logits y weightᵀ + bias; peak, mass and moment of logits / temperature of every tile of tokens."""
    vocabulary, width = weight.shape
    shape, tiles = SHAPES["score"], statistics[0].shape[1]
    decode_kernels.score[(triton.cdiv(rows, shape.m), tiles)](
        *(_tiles(y, shape.m, shape.k), _tiles(weight, shape.n, shape.k)),
        *(weight, y if bias is None else bias, temperature, logits, *statistics, width, vocabulary, tiles),
        BIAS=bias is not None,
        EVEN=vocabulary % shape.n == 0,
        PRECISION=_precision(y),
        M=shape.m,
        N=shape.n,
        K=shape.k,
        LINES=_fetched(shape, width, weight),
        **_options(shape, y, shape.n),
    )


def warm(
    rows: int,
    logits: Tensor,
    statistics: tuple[Tensor, Tensor, Tensor],
    temperature: Tensor,
    warmth: Tensor,
    heat: Tensor,
    warmed: tuple[Tensor, Tensor, Tensor],
) -> None:
    """The temperature of each row by its entropy and its warmth [4, rows], and the statistics at that temperature."""
    tiles = statistics[0].shape[1]
    sampling_kernels.warm[(rows, triton.cdiv(tiles, 32))](
        *(logits, *statistics, temperature, warmth, heat, *warmed, logits.shape[1], tiles, warmth.stride(0)),
        TILES=_power(tiles),
        N=VOCABULARY_TILE,
        BLOCK=32,
        **_options(WIDE, logits),
    )


def cuts(rows: int, tiles: int, device: torch.device) -> tuple[Tensor, ...]:
    """Buffers of `truncate`: the cut and the edge of each row, which `choose` reads, and its workspace."""
    return (
        torch.empty(rows, device=device),
        torch.empty(rows, dtype=torch.int32, device=device),
        torch.empty((rows, tiles), dtype=torch.int32, device=device),
        torch.empty((rows, CANDIDATES), dtype=torch.int32, device=device),
    )


def truncate(
    rows: int,
    logits: Tensor,
    statistics: tuple[Tensor, Tensor, Tensor],
    temperature: Tensor,
    alive: Tensor,
    filters: tuple[Tensor, Tensor, Tensor],
    cuts: tuple[Tensor, ...],
) -> None:
    """Find the tokens that top-k, top-p and min-p keep in each row, and restrict the statistics to them."""
    tiles = statistics[0].shape[1]
    options = _options(WIDE, logits) | ({"maxnreg": 128} if logits.is_cuda else {})  # two programs at a time
    truncation_kernels.truncate[(rows,)](
        *(logits, *statistics, temperature, alive, *filters, *cuts, logits.shape[1], tiles),
        TILES=_power(tiles),
        N=VOCABULARY_TILE,
        BLOCK=16,
        ROOM=cuts[-1].shape[1],
        SAMPLE=SAMPLED,
        **options,
    )


def choose(
    rows: int,
    logits: Tensor,
    statistics: tuple[Tensor, Tensor, Tensor],
    temperature: Tensor,
    uniform: Tensor,
    here: Tensor,
    table: Tensor,
    written: tuple[Tensor, Tensor, Tensor],
    state: Tensor,
    waiting: tuple[Tensor, Tensor, Tensor],
    cuts: tuple[Tensor, ...] | None = None,
) -> None:
    """Draw a token in each lane, among those that `truncate` kept; advance the state of its row, or end it."""
    tiles = statistics[0].shape[1]
    cut, edge = (here, here) if cuts is None else cuts[:2]
    sampling_kernels.choose[(rows,)](
        *(logits, *statistics, temperature, uniform, here, table, *written, state, *waiting, cut, edge),
        *(logits.shape[1], tiles, here.stride(0)),
        TILES=_power(tiles),
        N=VOCABULARY_TILE,
        TRUNCATED=cuts is not None,
        **_options(SMALL, logits),
    )


def assemble(
    lanes: int,
    usable: int,
    waiting: tuple[Tensor, Tensor, Tensor],
    rows: tuple[Tensor, Tensor, Tensor],
    here: tuple[Tensor, Tensor, Tensor],
) -> None:
    """Fill lanes with rows, by (lane, line, ends), and gather the state of these rows: integers, floats, page tables.
    Neither this kernel nor the next one is launched early."""
    ints, numbers, table = rows
    sampling_kernels.assemble[(lanes,)](
        *(*waiting, *rows, *here, lanes, min(usable, lanes), len(waiting[1]), ints.stride(0), table.shape[1]),
        LANES=_power(lanes),
        COUNT=len(ints),
        NUMBERS=len(numbers),
        SETTINGS=SETTINGS,
        ALIVE=ALIVE,
    )
