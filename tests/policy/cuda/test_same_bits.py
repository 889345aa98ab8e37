"""On a GPU the sampler's kernels and the trainer's give the same numbers to the bit, whatever the number of rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")
if not torch.cuda.is_available():
    pytest.skip("the order of sums is that of a GPU's matrix units", allow_module_level=True)

from podium.policy.cuda import attention, decode_launch, ops
from podium.policy.forward.pack import pack

ROWS, MANY, PAGE, DEVICE = 256, 5000, 16, torch.device("cuda")
SHAPES = pytest.mark.parametrize(
    ("width", "inner", "heads", "kv", "size"), [(576, 1536, 9, 3, 64), (896, 4864, 14, 2, 64), (1024, 3072, 16, 8, 128)]
)
DTYPES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])


@pytest.fixture
def draw() -> Any:
    generator = torch.Generator(DEVICE).manual_seed(0)

    def made(*shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Tensor:
        return (torch.randn(*shape, device=DEVICE, generator=generator) * scale).to(dtype)

    return made


def among(rows: Tensor, others: Tensor) -> Tensor:
    """Rows, followed by many others."""
    return torch.cat([rows, others])


@SHAPES
@DTYPES
def test_norms(draw: Any, dtype: torch.dtype, width: int, inner: int, heads: int, kv: int, size: int) -> None:
    x, weight, y = draw(ROWS, width), draw(width), draw(ROWS, width, dtype=dtype)
    decode_launch.settle(ROWS, x, x.new_empty(0, ROWS, width), weight, y, 1e-5)
    trained, _ = ops.normed(among(x, draw(MANY, width)), weight, 1e-5, dtype)
    assert torch.equal(y, trained[:ROWS])


@SHAPES
@DTYPES
@pytest.mark.parametrize("extras", ["", "bias", "norms"])
def test_projections(
    draw: Any, dtype: torch.dtype, width: int, inner: int, heads: int, kv: int, size: int, extras: str
) -> None:
    y, weight = draw(ROWS, width, dtype=dtype), draw((heads + 2 * kv) * size, width, dtype=dtype, scale=0.05)
    bias = draw(len(weight), dtype=dtype) if extras == "bias" else None
    norms = (draw(size), draw(size)) if extras == "norms" else None
    position, row = torch.arange(ROWS, device=DEVICE) % 97, torch.arange(ROWS, device=DEVICE)
    angle = torch.rand(100, size // 2, device=DEVICE)
    pages = torch.arange(7 * ROWS, dtype=torch.int32, device=DEVICE).view(ROWS, 7)
    pool, q = draw(2, 7 * ROWS, kv, PAGE, size, dtype=dtype), draw(ROWS, heads * size, dtype=dtype)
    rope = angle.cos(), angle.sin()
    decode_launch.project(ROWS, y, weight, bias, norms, rope, position, pages, pool, q, 1e-6)
    page = pages[row, position // PAGE].long()
    sampled = [q.view(ROWS, heads, size), *(pool[kind][page, :, position % PAGE] for kind in (0, 1))]
    trained = ops.linear(among(y, draw(MANY, width, dtype=dtype)), weight, bias)[:ROWS].view(ROWS, -1, size).clone()
    if norms is not None:
        for places, norm in ((slice(0, heads), norms[0]), (slice(heads, heads + kv), norms[1])):
            flat, _ = ops.normed(trained[:, places].reshape(-1, size), norm, 1e-6, dtype)
            trained[:, places] = flat.view(ROWS, -1, size)
    ops.turn(trained, *rope, position, heads + kv)
    assert torch.equal(torch.cat(sampled, 1), trained)


@SHAPES
@DTYPES
@pytest.mark.parametrize("which", ["out", "down"])
def test_products_that_join_the_residual_stream(
    draw: Any, dtype: torch.dtype, width: int, inner: int, heads: int, kv: int, size: int, which: str
) -> None:
    long = heads * size if which == "out" else inner
    x, y, weight = draw(ROWS, width), draw(ROWS, long, dtype=dtype), draw(width, long, dtype=dtype, scale=0.05)
    trained = ops.add_linear(among(x, draw(MANY, width)), among(y, draw(MANY, long, dtype=dtype)), weight, None)
    parts = torch.zeros(decode_launch.cut(weight)[1], ROWS, width, device=DEVICE)
    decode_launch.product(ROWS, y, weight, None, parts)
    decode_launch.settle(ROWS, x, parts, draw(width), draw(ROWS, width, dtype=dtype), 1e-5)
    assert torch.equal(x, trained[:ROWS])


@SHAPES
@DTYPES
def test_gates(draw: Any, dtype: torch.dtype, width: int, inner: int, heads: int, kv: int, size: int) -> None:
    y, weight = draw(ROWS, width, dtype=dtype), draw(2 * inner, width, dtype=dtype, scale=0.05)
    sampled = draw(ROWS, inner, dtype=dtype)
    decode_launch.gate(ROWS, y, weight, None, sampled)
    trained = ops.gated(ops.linear(among(y, draw(MANY, width, dtype=dtype)), weight, None))
    assert torch.equal(sampled, trained[:ROWS])


@SHAPES
@DTYPES
def test_attention(draw: Any, dtype: torch.dtype, width: int, inner: int, heads: int, kv: int, size: int) -> None:
    """Over texts with and without a shared beginning, at lengths around the ends of blocks and chunks of keys."""
    prompt = tuple(range(100, 177))
    texts = [
        (*prompt, *[1000 + i] * n) if i % 2 else (2000 + i,) * n
        for i, n in enumerate((1, 30, 128, 129, 300, 435, 512, 513, 700, 1200))
    ]
    levels = pack(texts, DEVICE, least=16).levels
    nodes = int(levels.within.query_edges[-1])
    q, k, v = (
        draw(nodes, heads, size, dtype=dtype),
        draw(nodes, kv, size, dtype=dtype),
        draw(nodes, kv, size, dtype=dtype),
    )
    trained, _ = attention.attend(q, k, v, levels, size**-0.5)
    last = (levels.within.query_edges[1:] - 1).tolist()
    edges, most = levels.path_edges.tolist(), 90
    pages = 1 + torch.arange(ROWS * most, dtype=torch.int32, device=DEVICE).view(ROWS, most)
    pool = torch.zeros(2, 1 + len(last) * most, kv, PAGE, size, dtype=dtype, device=DEVICE)
    position = torch.zeros(ROWS, dtype=torch.long, device=DEVICE)
    asked, sampled = draw(ROWS, heads * size, dtype=dtype), draw(ROWS, heads * size, dtype=dtype)
    for row, node in enumerate(last):
        path = levels.paths[edges[row] : edges[row + 1]].long()
        at = torch.arange(len(path), device=DEVICE)
        page = pages[row, at // PAGE].long()
        pool[0][page, :, at % PAGE], pool[1][page, :, at % PAGE] = k[path], v[path]
        asked[row], position[row] = q[node].flatten(), len(path) - 1
    chunks = 4
    parts = decode_launch.parts(len(last), heads, kv, size, chunks, DEVICE)
    decode_launch.divide(len(last), position, parts, chunks)
    decode_launch.attend(len(last), asked, pool, pages, sampled, parts, chunks)
    assert torch.equal(sampled[: len(last)].view(-1, heads, size), trained[torch.tensor(last, device=DEVICE)])


@SHAPES
@DTYPES
def test_attention_after_given_keys(
    draw: Any, dtype: torch.dtype, width: int, inner: int, heads: int, kv: int, size: int
) -> None:
    texts = [(1000 + i, *range(n)) for i, n in enumerate((70, 200, 511, 512, 900, 1300))]
    counts = [0, 64, 100, 500, 513, 1000]
    whole = pack(texts, DEVICE)
    q = draw(len(whole.ids), heads, size, dtype=dtype)
    k, v = (draw(len(whole.ids), kv, size, dtype=dtype) for _ in range(2))
    expected, _ = attention.attend(q, k, v, whole.levels, size**-0.5)
    held = torch.cat([torch.from_numpy(n[:c]) for n, c in zip(whole.nodes, counts, strict=True)]).to(DEVICE)
    left = torch.cat([torch.from_numpy(n[c:]) for n, c in zip(whole.nodes, counts, strict=True)]).to(DEVICE)
    begins = [sum(counts[:i]) for i in range(len(counts))]
    packed = pack(texts, DEVICE, given=list(zip(begins, counts, strict=True)), total=len(held))
    keys, values = (torch.cat([x[held], x[left]]) for x in (k, v))
    found, _ = attention.attend(q[left], keys, values, packed.levels, size**-0.5)
    assert torch.equal(found, expected[left])
