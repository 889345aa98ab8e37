"""The kernels of a decoding step against the same functions in plain torch; without a GPU, by Triton's interpreter."""

from __future__ import annotations

import math
import os
from typing import Any

import pytest
import torch
from torch import Tensor

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton")

from podium.policy.cuda import decode_launch as kernels  # noqa: E402
from podium.policy.cuda import decode_reference as plain  # noqa: E402
from podium.sampler.draw import Filters, draw  # noqa: E402

ROWS, ROOM, PAGE = 20, kernels.ROWS, 16
# The interpreter does not multiply matrices of bfloat16.
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16 if DEVICE == "cuda" else torch.float16])


def tensors(seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return lambda *shape, dtype=torch.float32: torch.randn(*shape, generator=generator).to(dtype).to(DEVICE)


def close(found: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    tolerance = 1e-4 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(found.float(), expected.float(), atol=tolerance, rtol=tolerance)


def both(function: str, outputs: list[Tensor], *arguments: Any) -> tuple[list[Tensor], list[Tensor]]:
    """What the kernel and the plain function leave in the outputs, which begin the same."""
    results = []
    for module in (kernels, plain):
        given = {id(x): x.clone() for x in outputs}

        def swap(x: Any, given: dict[int, Tensor] = given) -> Any:
            return tuple(map(swap, x)) if isinstance(x, tuple) else given.get(id(x), x)

        getattr(module, function)(ROWS, *map(swap, arguments))
        results.append([given[id(x)] for x in outputs])
    return results[0], results[1]


@DTYPES
@pytest.mark.parametrize("width", [64, 160])
@pytest.mark.parametrize("parts", [0, 3])
def test_the_residual_stream_and_its_norm(dtype: torch.dtype, width: int, parts: int) -> None:
    make = tensors()
    token = torch.randint(0, 50, (ROOM,)).to(DEVICE)
    x, y = torch.full((ROOM, width), 7.0, device=DEVICE), make(ROOM, width, dtype=dtype)
    found, expected = both("embed", [x], token, make(50, width, dtype=dtype), x)
    assert torch.equal(found[0][:ROWS], expected[0][:ROWS])
    given, norm = make(parts, ROOM, width), make(width)
    found, expected = both("settle", [x, y], x, given, norm, y, 1e-5)
    torch.testing.assert_close(found[0][:ROWS], expected[0][:ROWS])
    close(found[1][:ROWS], expected[1][:ROWS], dtype)


@DTYPES
@pytest.mark.parametrize(("width", "size"), [(64, 32), (160, 16)])
@pytest.mark.parametrize("extras", ["", "bias", "norms"])
def test_projection_turns_heads_and_fills_pages(dtype: torch.dtype, width: int, size: int, extras: str) -> None:
    make, heads, kv = tensors(1), 4, 2
    y = make(ROOM, width, dtype=dtype)
    weight = 0.1 * make((heads + 2 * kv) * size, width, dtype=dtype)
    bias = make((heads + 2 * kv) * size, dtype=dtype) if extras == "bias" else None
    norms = (make(size), make(size)) if extras == "norms" else None
    angle = torch.rand(100, size // 2, device=DEVICE)
    position = torch.randint(0, 100, (ROOM,)).to(DEVICE)
    pages = torch.arange(ROOM * 7, dtype=torch.int32, device=DEVICE).view(ROOM, 7)
    pool, q = make(2, ROOM * 7, kv, PAGE, size, dtype=dtype), make(ROOM, heads * size, dtype=dtype)
    rope = angle.cos(), angle.sin()
    found, expected = both("project", [pool, q], y, weight, bias, norms, rope, position, pages, pool, q, 1e-5)
    close(found[1][:ROWS], expected[1][:ROWS], dtype)
    # Rows that nobody asked for may be written too, to their own pages.
    close(found[0][:, : ROWS * 7], expected[0][:, : ROWS * 7], dtype)


@pytest.mark.parametrize("rows", [1, 20, 37])
@pytest.mark.parametrize("at_once", [1, 10, 600])
def test_the_list_has_every_chunk_once_and_the_shortest_last(
    rows: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks, kv = 4, 2
    monkeypatch.setattr(kernels, "CHUNK", 128)
    monkeypatch.setattr(kernels, "AT_ONCE", at_once)
    position = torch.randint(0, chunks * 128, (rows,), generator=torch.Generator().manual_seed(rows)).to(DEVICE)
    position[::5] = 255  # rows of the same length, and nothing but whole chunks
    parts = kernels.parts(rows, 4, kv, 64, chunks, torch.device(DEVICE))
    parts[-2].fill_(9)  # as an earlier step has left it
    kernels.divide(rows, position, parts, chunks)
    lengths = [int(p) + 1 for p in position]
    expected = [[row, begin, n] for row, n in enumerate(lengths) for begin in range(0, n, 128)]
    listed = parts[-2].t().tolist()
    assert sorted(item for item in listed if item[2]) == expected
    keys = [max(0, min(128, n - begin)) for _, begin, n in listed]
    processors = torch.cuda.get_device_properties(0).multi_processor_count if DEVICE == "cuda" else 1
    first = min(rows * chunks, processors * at_once // kv)
    assert keys[first:] == sorted(keys, reverse=True)[first:]


@DTYPES
@pytest.mark.parametrize(("heads", "kv", "chunks"), [(4, 2, 1), (6, 2, 2), (9, 3, 4)])
def test_attention_over_pages(
    dtype: torch.dtype, heads: int, kv: int, chunks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "CHUNK", 128)
    make, size, most = tensors(2), 32, chunks * 8
    pool, q = make(2, 300, kv, PAGE, size, dtype=dtype), make(ROOM, heads * size, dtype=dtype)
    pages = torch.randint(0, 300, (ROOM, most), dtype=torch.int32).to(DEVICE)
    position = torch.randint(0, chunks * 128, (ROOM,)).to(DEVICE)
    position[:4] = torch.tensor([0, 127, chunks * 128 - 1, 64])
    out = make(ROOM, heads * size, dtype=dtype)
    parts = kernels.parts(ROWS, heads, kv, size, chunks, torch.device(DEVICE))
    plain_parts, expected = plain.parts(ROOM, heads, kv, size, chunks, torch.device(DEVICE)), out.clone()
    plain.divide(ROWS, position, plain_parts, chunks)
    plain.attend(ROWS, q, pool, pages, expected, plain_parts, chunks)
    for _ in range(2):  # the counters are as before
        kernels.divide(ROWS, position, parts, chunks)
        kernels.attend(ROWS, q, pool, pages, out, parts, chunks)
        close(out[:ROWS], expected[:ROWS], dtype)


def test_chunks_do_not_change_the_numbers_of_a_short_row() -> None:
    make, size = tensors(3), 32
    pool, q = make(2, 80, 2, PAGE, size), make(ROOM, 4 * size)
    pages = torch.randint(0, 80, (ROOM, 200), dtype=torch.int32).to(DEVICE)
    position = torch.arange(ROOM, device=DEVICE) * 4
    outs = []
    for chunks in (1, 4):
        parts = kernels.parts(ROWS, 4, 2, size, chunks, torch.device(DEVICE))
        outs.append(make(ROOM, 4 * size))
        kernels.divide(ROWS, position, parts, chunks)
        kernels.attend(ROWS, q, pool, pages, outs[-1], parts, chunks)
    assert torch.equal(outs[0][:ROWS], outs[1][:ROWS])


@DTYPES
@pytest.mark.parametrize(("width", "inner"), [(64, 128), (160, 96), (80, 2000)])
@pytest.mark.parametrize("biased", [False, True])
def test_products(dtype: torch.dtype, width: int, inner: int, biased: bool) -> None:
    make = tensors(4)
    y = make(ROOM, inner, dtype=dtype)
    weight, bias = 0.1 * make(width, inner, dtype=dtype), make(width, dtype=dtype) if biased else None
    parts = torch.full((kernels.cut(weight)[1], ROOM, width), 7.0, device=DEVICE)
    found, expected = both("product", [parts], y, weight, bias, parts)
    close(found[0][:, :ROWS].sum(0), expected[0][:, :ROWS].sum(0), dtype)
    wide, wider = 0.1 * make(2 * width, inner, dtype=dtype), make(2 * width, dtype=dtype) if biased else None
    out = make(ROOM, width, dtype=dtype)
    found, expected = both("gate", [out], y, wide, wider, out)
    close(found[0][:ROWS], expected[0][:ROWS], dtype)


@DTYPES
@pytest.mark.parametrize("vocabulary", [512, 300])
def test_scores_and_the_draw(dtype: torch.dtype, vocabulary: int) -> None:
    make, width, slots, length = tensors(5), 64, 21, 6
    y = make(ROOM, width, dtype=dtype)
    tiles = -(-vocabulary // plain.VOCABULARY_TILE)
    temperature = 0.5 + torch.rand(ROOM, device=DEVICE)
    logits, statistics = make(ROOM, vocabulary), tuple(make(ROOM, tiles) for _ in range(3))
    head = 0.3 * make(vocabulary, width, dtype=dtype)
    found, expected = both("score", [logits, *statistics], y, head, None, temperature, logits, statistics)
    for a, b in zip(found, expected, strict=True):
        close(a[:ROWS], b[:ROWS], dtype)

    logits, statistics = expected[0], tuple(expected[1:])
    generator = torch.Generator().manual_seed(6)
    uniform = torch.rand(slots * length, dtype=torch.float64, generator=generator).to(DEVICE)
    here = torch.zeros(8, ROOM, dtype=torch.long, device=DEVICE)
    here[0], here[1] = 3, 5
    here[2, :ROWS] = torch.arange(1, ROWS + 1) * length
    here[3] = here[2] + length - 1
    here[3, 4] = here[2, 4]  # at its limit
    here[4, :ROWS] = 1
    here[4, 7] = 0  # nobody
    here[5] = torch.arange(ROOM) % 2
    here[6, 10] = 1  # greedy
    here[7] = torch.arange(ROOM - 1, -1, -1)
    table = torch.zeros(2, vocabulary, dtype=torch.int8, device=DEVICE)
    table[0, ::3], table[1, ::2], table[1, 1::4] = 1, 2, 1
    ids = torch.full((slots * length,), -1, device=DEVICE)
    values = [torch.zeros(slots * length, device=DEVICE) for _ in range(2)]
    state = torch.full((7, ROOM), 2, device=DEVICE)
    lane, ends, seen = here[7].clone(), torch.tensor([3, 9, 5], device=DEVICE), torch.zeros_like(here[7])
    outputs = [state, ids, lane, ends, seen, *values]
    given = (uniform, here, table, (ids, *values), state, (lane, ends, seen))
    found, expected = both("choose", outputs, logits, statistics, temperature, *given)
    for a, b in zip(found[:5], expected[:5], strict=True):
        assert torch.equal(a, b)
    for a, b in zip(found[5:], expected[5:], strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
    after, ids, lane, ends, seen, logp, spread = found
    assert ends.tolist() == [5, 9, 5]
    whose = here[7, :ROWS]
    goes = after[4, whose] == 1
    assert 0 < int(goes.sum()) < ROWS - 1
    assert torch.equal(lane[:ROWS], whose.where(goes, -1))
    assert torch.equal(after[0, whose][goes], ids[here[2, :ROWS]][goes])
    assert int(seen[whose[4]]) == 1
    assert after[:, whose[7]].tolist() == [2] * 7
    assert int(ids[here[2, 10]]) == int(logits[10].argmax())
    assert float(logp[here[2, 10]]) == float(spread[here[2, 10]]) == 0.0
    rows = torch.tensor([r for r in range(ROWS) if r not in (7, 10)], device=DEVICE)
    log_p = (logits / temperature[:, None])[rows].log_softmax(-1)
    at = here[2, rows]
    torch.testing.assert_close(logp[at], log_p.gather(1, ids[at][:, None]).squeeze(1), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(spread[at], -(log_p.exp() * log_p).sum(-1), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("usable", [3, 20, 99])
@pytest.mark.parametrize("waiting", [0, 2, 30])
def test_lanes_take_rows_that_wait_in_their_order(usable: int, waiting: int) -> None:
    rows, lanes, most, places = 64, ROWS, 150, 40
    choice = torch.Generator().manual_seed(waiting)
    ints, numbers = torch.randint(0, 100, (7, rows), generator=choice), torch.rand(7, rows)
    table = torch.arange(1, rows * most + 1, dtype=torch.int32).view(rows, most)
    lane = torch.full((rows,), -1)
    lane[:lanes] = torch.randperm(30, generator=choice)[:lanes]
    lane[5] = -1
    ints[plain.ALIVE] = torch.randint(0, 3, (rows,), generator=choice)  # ended, going on, seated but not begun
    ints[plain.ALIVE, lane[usable:lanes]] *= 0  # lanes that may not be used have no rows
    line = torch.randint(30, rows, (places,), generator=choice)
    ends = torch.tensor([37, 37 + waiting, 0])
    here, here_numbers = torch.full((8, rows), 7), torch.rand(7, rows)
    front = torch.full((rows, most), 9, dtype=torch.int32)
    moved = [x.to(DEVICE) for x in (lane, line, ends, ints, numbers, table, here, here_numbers, front)]
    before = [x.clone() for x in moved]
    given = tuple(moved[:3]), tuple(moved[3:6]), tuple(moved[6:])
    found, expected = both("assemble", moved, usable, *given)
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)
    lane, line, ends, ints, numbers, table, here, here_numbers, front = (x.cpu() for x in found)
    left = 37
    for i in range(lanes):
        row = int(lane[i])
        if row < 0 or int(ints[plain.ALIVE, row]) != 1:
            row = -1
            if i < usable and left < 37 + waiting:
                row, left = int(line[left % places]), left + 1
        assert int(here[7, i]) == row
        assert int(here[plain.ALIVE, i]) == int(row >= 0)
        assert front[i].tolist() == (table[row].tolist() if row >= 0 else [0] * most)
        if row >= 0:
            assert here[:4, i].tolist() == ints[:4, row].tolist()
            assert here_numbers[:, i].tolist() == numbers[:, row].tolist()
        else:
            assert here_numbers[:, i].tolist() == [1.0] * plain.SETTINGS + [0.0] * 4
    assert int(ends[2]) == left
    for number in (0, 1, 3, 4, 5):
        assert torch.equal(found[number], before[number])


# Temperature, top-k, top-p and min-p of each row.
TRUNCATED = [
    *((1.0, 0, 1.0, 0.0), (0.7, 0, 1.0, 0.0), (1.0, 1, 1.0, 0.0), (1.0, 1, 0.5, 0.1)),
    *((1.0, 5, 1.0, 0.0), (0.8, 50, 1.0, 0.0), (1.0, 290, 1.0, 0.0), (1.0, 4, 1.0, 0.0), (1.0, 10**6, 1.0, 0.0)),
    *((1.0, 0, 0.93, 0.0), (0.6, 0, 0.9991, 0.0), (2.0, 0, 0.31, 0.0), (1.0, 0, 1e-6, 0.0)),
    *((1.0, 0, 1.0, 0.05), (1.0, 0, 1.0, 1.0), (1.0, 0, 1.0, 1e-30)),
    *((0.7, 40, 0.91, 0.02), (1.0, 250, 0.96, 0.0), (1.0, 30, 0.8, 0.3), (1.5, 10**6, 0.52, 1e-3)),
]
DEAD = 7


@pytest.mark.parametrize("scale", [0.02, 0.6, 3.0, 30.0])
@pytest.mark.parametrize(("vocabulary", "candidates"), [(300, 8192), (512, 64)])
@pytest.mark.parametrize("ties", [False, True])
def test_truncated_rows_are_drawn_as_by_definition(
    scale: float, vocabulary: int, candidates: int, ties: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "CANDIDATES", candidates)
    monkeypatch.setattr(kernels, "SAMPLED", 64)
    order = tensors(8)(ROOM, vocabulary).argsort(-1)
    normal = torch.special.ndtri((torch.arange(vocabulary, device=DEVICE) + 0.5) / vocabulary)
    y = scale * normal[order]  # no two so close that a rounded log-probability is the same
    y = (2 * y / scale).round() * scale / 2 if ties else y
    weight = torch.eye(vocabulary, device=DEVICE)
    columns = [torch.tensor(x, device=DEVICE) for x in zip(*TRUNCATED, strict=True)]
    temperature, top_k, top_p, min_p = (torch.cat([x, x.new_ones(ROOM - ROWS)]) for x in columns)
    uniform = torch.rand(ROOM, dtype=torch.float64, generator=torch.Generator().manual_seed(9)).to(DEVICE)
    here = torch.zeros(8, ROOM, dtype=torch.long, device=DEVICE)
    here[2], here[3], here[4, :ROWS], here[6], here[7] = torch.arange(ROOM), -1, 1, top_k, torch.arange(ROOM)
    here[4, DEAD] = 0
    table = torch.zeros(1, vocabulary, dtype=torch.int8, device=DEVICE)
    expected = draw(*(x[:ROWS].cpu() for x in (y, uniform, temperature)), Filters(*(x.cpu() for x in columns[1:])))
    log_p = expected.log_softmax.double()
    # In the middle of what falls to a token: at the ends, the last bit of a sum decides between it and its neighbour.
    share = log_p.exp()
    middle = (share.cumsum(-1) - share / 2).gather(1, expected.token[:, None]).squeeze(1) / share.sum(-1)
    uniform[:ROWS] = middle.to(DEVICE)
    entropy = -(log_p.exp() * log_p.clamp(min=-1e300)).sum(-1)
    live = [row for row in range(ROWS) if row != DEAD]
    for module in (kernels, plain):
        tiles = -(-vocabulary // plain.VOCABULARY_TILE)
        logits, statistics = y.clone(), tuple(y.new_zeros(ROOM, tiles) for _ in range(3))
        module.score(ROWS, y, weight, None, temperature, logits, statistics)
        assert torch.equal(logits, y)
        before = [x.clone() for x in statistics]
        cuts = module.cuts(ROOM, tiles, torch.device(DEVICE))
        given = (ROWS, logits, statistics, temperature)
        module.truncate(*given, here[4], (top_k, top_p, min_p), cuts)
        for row in (0, 1, 2, 3, DEAD):
            assert all(torch.equal(x[row], old[row]) for x, old in zip(statistics, before, strict=True))
        written = torch.full((ROOM,), -1, device=DEVICE), y.new_zeros(ROOM), y.new_zeros(ROOM)
        after = here[:7].clone(), tuple(here[7].clone() for _ in range(3))
        module.choose(*given, uniform, here, table, written, *after, cuts)
        ids, logp, spread = (x[:ROWS].cpu() for x in written)
        assert ids[live].tolist() == expected.token[live].tolist()
        assert int(ids[DEAD]) == -1
        torch.testing.assert_close(logp[live], expected.logp[live], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(spread[live].double(), entropy[live], atol=2e-5, rtol=1e-5)


def test_a_flat_row_of_many_equal_tokens_is_cut_among_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "CANDIDATES", 64)
    monkeypatch.setattr(kernels, "SAMPLED", 64)
    logits = torch.zeros(3, 700, device=DEVICE)
    logits[:, 500:510] = 1.0
    ones, k, p = torch.ones(3, device=DEVICE), torch.tensor([100, 0, 9]), torch.tensor([1.0, 0.5, 1.0])
    statistics = tuple(torch.zeros(3, 6, device=DEVICE) for _ in range(3))
    z = plain._tiled(logits)
    for out, value in zip(statistics, (z.amax(-1), *plain._weighed(z, z.amax(-1))), strict=True):
        out.copy_(value)
    cuts = kernels.cuts(3, 6, torch.device(DEVICE))
    filters = k.to(DEVICE), p.to(DEVICE), torch.zeros(3, device=DEVICE)
    kernels.truncate(3, logits, statistics, ones, ones.long(), filters, cuts)
    assert cuts[0].tolist() == [1.0, 1.0, 0.0]
    # 90 of the others beside the ten; the ten and as many as have half of the mass with them; nine of the ten
    assert cuts[1].tolist() == [89, int((0.5 * (690 + 10 * math.e) - 10 * math.e) // 1), 508]


@pytest.mark.parametrize("vocabulary", [512, 300])
def test_a_temperature_that_follows_the_entropy(vocabulary: int) -> None:
    make = tensors(10)
    logits, temperature = make(ROOM, vocabulary) * torch.arange(ROOM, device=DEVICE)[:, None], 0.5 + make(ROOM).abs()
    numbers = make(9, ROOM)
    warmth = numbers[5:]  # as a part of what is known of rows
    warmth[0] = torch.rand(ROOM) * 0.9
    warmth[0, ::4] = 0.0
    z = plain._tiled(logits / temperature[:, None])
    statistics = z.amax(-1), *plain._weighed(z, z.amax(-1))
    heat, warmed = torch.zeros(ROOM, device=DEVICE), tuple(torch.zeros_like(x) for x in statistics)
    found, expected = both("warm", [heat, *warmed], logits, statistics, temperature, warmth, heat, warmed)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a[:ROWS], b[:ROWS], atol=1e-4, rtol=1e-4)
    for values, old in ((found[0], temperature), *zip(found[1:], statistics, strict=True)):
        assert torch.equal(values[:ROWS:4], old[:ROWS:4])
    log_p = (logits / temperature[:, None]).log_softmax(-1)[:ROWS].double()
    strength, pivot, above, below = warmth[:, :ROWS].double()
    apart = (-(log_p.exp() * log_p).sum(-1)).clamp(min=1e-8).log() - pivot
    factor = 1 + strength * (torch.where(apart > 0, above, below) * apart).clamp(-1, 1)
    torch.testing.assert_close(found[0][:ROWS].double(), temperature[:ROWS].double() * factor, atol=1e-3, rtol=1e-3)


def test_a_row_has_the_same_numbers_in_any_batch() -> None:
    make, width, inner = tensors(7), 64, 128
    y, weight = make(ROOM, inner), make(width, inner)
    results = []
    for rows in (3, 33, ROOM):
        parts = make(kernels.cut(weight)[1], ROOM, width)
        kernels.product(rows, y, weight, None, parts)
        results.append(parts[:, :3])
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])
