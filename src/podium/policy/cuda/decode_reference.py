"""The functions of `decode_launch.py` in plain torch: what the kernels compute, for a CPU and for tests.

The kernels sum in an order that does not depend on what else is in a step. A library's matrix products do not promise
that, so products here are summed in float64 and rounded afterwards: the order hardly ever matters.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = [
    *("assemble", "attend", "choose", "cut", "cuts", "divide", "embed", "gate"),
    *("parts", "product", "project", "score", "settle", "truncate", "warm"),
]

ROWS, CHUNK, VOCABULARY_TILE = 256, 512, 128
ALIVE = 4  # index of the integer that says whether a row is running (1), has ended (0) or waits (2)
SETTINGS = 3  # how many of a row's floats are 1 where there is no row


def _product(y: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """In float32."""
    z = (y.double() @ weight.double().t()).float()
    return z if bias is None else z + bias.float()


def cut(weight: Tensor) -> tuple[int, int]:
    return weight.shape[1], 1


def embed(rows: int, token: Tensor, table: Tensor, x: Tensor) -> None:
    x[:rows] = table[token[:rows]].float()


def settle(rows: int, x: Tensor, parts: Tensor, norm: Tensor, y: Tensor, eps: float) -> None:
    x[:rows] += parts[:, :rows].sum(0)
    scale = torch.rsqrt(x[:rows].square().mean(1, keepdim=True) + eps)
    y[:rows] = (x[:rows] * scale * norm.float()).to(y.dtype)


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
    _, _, kv, page, size = pool.shape
    heads, at = q.shape[1] // size, position[:rows]
    new = _product(y[:rows], weight, bias).to(q.dtype).float().view(rows, -1, size)
    parts = list(torch.split(new, [heads, kv, kv], 1))
    cos, sin = (table[at][:, None] for table in rope)
    for i in (0, 1):
        if head_norms is not None:
            scale = torch.rsqrt(parts[i].square().mean(-1, keepdim=True) + eps)
            parts[i] = (parts[i] * scale * head_norms[i].float()).to(q.dtype).float()
        a, b = parts[i].chunk(2, -1)
        parts[i] = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    q[:rows] = parts[0].reshape(rows, -1).to(q.dtype)
    own_page = pages[torch.arange(rows, device=y.device), at // page].long()
    for kind in (0, 1):
        pool[kind][own_page, :, at % page] = parts[1 + kind].to(pool.dtype)


def divide(rows: int, position: Tensor, parts: tuple[Tensor, ...], chunks: int) -> None:
    parts[0][:rows] = position[:rows]


def attend(
    rows: int, q: Tensor, pool: Tensor, pages: Tensor, out: Tensor, parts: tuple[Tensor, ...], chunks: int
) -> None:
    position = parts[0]
    _, _, kv, page, size = pool.shape
    length = int(position[:rows].max()) + 1
    key = torch.arange(length, device=q.device)
    inside = key[None] <= position[:rows, None]
    page_of = pages[:rows, key // page].long().where(inside, 0)
    # [rows, kv, keys, size]
    k, v = (pool[kind][page_of, :, (key % page)[None]].transpose(1, 2).double() for kind in (0, 1))
    z = q[:rows].double().view(rows, kv, -1, size) @ k.transpose(2, 3) * size**-0.5
    p = z.masked_fill(~inside[:, None, None], float("-inf")).softmax(-1)
    out[:rows] = (p @ v).reshape(rows, -1).to(out.dtype)


def parts(rows: int, heads: int, kv: int, size: int, chunks: int, device: torch.device) -> tuple[Tensor, ...]:
    return (torch.zeros(rows, dtype=torch.long, device=device),)


def product(rows: int, y: Tensor, weight: Tensor, bias: Tensor | None, parts: Tensor) -> None:
    parts[:, :rows] = 0
    parts[0, :rows] = _product(y[:rows], weight, bias)


def gate(rows: int, y: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> None:
    a, b = _product(y[:rows], weight, bias).to(out.dtype).float().chunk(2, -1)
    out[:rows] = (F.silu(a) * b).to(out.dtype)


def _tiled(z: Tensor) -> Tensor:
    """[rows, tiles, VOCABULARY_TILE] of scores [rows, vocabulary]."""
    padded = F.pad(z, (0, -z.shape[1] % VOCABULARY_TILE), value=float("-inf"))
    return padded.view(len(z), padded.shape[1] // VOCABULARY_TILE, VOCABULARY_TILE)


def score(
    rows: int,
    y: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    temperature: Tensor,
    logits: Tensor,
    statistics: tuple[Tensor, Tensor, Tensor],
) -> None:
    logits[:rows] = _product(y[:rows], weight, bias)
    z = _tiled(logits[:rows] / temperature[:rows, None])
    for out, value in zip(statistics, (z.amax(-1), *_weighed(z, z.amax(-1))), strict=True):
        out[:rows] = value


def _weighed(z: Tensor, peak: Tensor) -> tuple[Tensor, Tensor]:
    """Mass and moment of scores [rows, tiles, VOCABULARY_TILE]."""
    gap = z - peak[..., None]
    weight_of = gap.exp()
    return weight_of.sum(-1), (gap * weight_of).nan_to_num(0.0).sum(-1)


def _gathered(peak: Tensor, mass: Tensor, moment: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of each row's tiles: the largest peak (top), their masses relative to it, and Σ (z − top) e^(z − top)."""
    top = peak.amax(-1, keepdim=True)
    shrink = (peak - top).exp()
    masses = mass * shrink
    return top, masses, (moment * shrink + (masses * (peak - top)).nan_to_num(0.0)).sum(-1)


def warm(
    rows: int,
    logits: Tensor,
    statistics: tuple[Tensor, Tensor, Tensor],
    temperature: Tensor,
    warmth: Tensor,
    heat: Tensor,
    warmed: tuple[Tensor, Tensor, Tensor],
) -> None:
    _, masses, gap = _gathered(*(x[:rows] for x in statistics))
    whole = masses.sum(-1)
    strength, pivot, above, below = warmth[:, :rows]
    apart = (whole.log() - gap / whole).clamp(min=1e-8).log() - pivot
    heat[:rows] = temperature[:rows] * (1 + strength * (torch.where(apart > 0, above, below) * apart).clamp(-1, 1))
    z, steady = _tiled(logits[:rows] / heat[:rows, None]), strength[:, None] == 0
    values = z.amax(-1), *_weighed(z, z.amax(-1))
    for out, old, value in zip(warmed, statistics, values, strict=True):
        out[:rows] = old[:rows].where(steady, value)


def cuts(rows: int, tiles: int, device: torch.device) -> tuple[Tensor, ...]:
    return torch.empty(rows, device=device), torch.empty(rows, dtype=torch.int32, device=device)


def truncate(
    rows: int,
    logits: Tensor,
    statistics: tuple[Tensor, Tensor, Tensor],
    temperature: Tensor,
    alive: Tensor,
    filters: tuple[Tensor, Tensor, Tensor],
    cuts: tuple[Tensor, ...],
) -> None:
    top_k, top_p, min_p = (x[:rows, None] for x in filters)
    vocabulary = logits.shape[1]
    z = logits[:rows] / temperature[:rows, None]
    depth = (z.amax(-1, keepdim=True) - z).abs()
    depth, order = depth.sort(dim=-1, stable=True)
    rank = torch.arange(vocabulary, device=z.device)
    inside = rank < top_k.where(top_k > 0, vocabulary)
    p = (-depth).double().exp() * inside
    total = p.cumsum(-1)
    inside &= (total - p < top_p * total[:, -1:]) | (top_p >= 1.0)
    inside &= depth <= -min_p.log()
    last = inside.sum(-1, keepdim=True) - 1
    whole = (alive[:rows, None] <= 0) | (top_k == 1) | (last == vocabulary - 1)
    cut, edge = depth.gather(1, last), order.gather(1, last)
    cuts[0][:rows] = cut.masked_fill(whole, float("inf")).squeeze(1)
    cuts[1][:rows] = edge.masked_fill(whole, vocabulary).squeeze(1)
    left = torch.zeros_like(inside).scatter(1, order, inside)
    z, peak = _tiled(z.masked_fill(~left, float("-inf"))), statistics[0][:rows]
    for out, value in zip(statistics[1:], _weighed(z, peak), strict=True):
        out[:rows] = out[:rows].where(whole, value)


def assemble(
    lanes: int,
    usable: int,
    waiting: tuple[Tensor, Tensor, Tensor],
    rows: tuple[Tensor, Tensor, Tensor],
    gathered: tuple[Tensor, Tensor, Tensor],
) -> None:
    lane, line, ends = waiting
    ints, numbers, table = rows
    chosen = lane[:lanes].clone()
    goes = (chosen >= 0) & (ints[ALIVE][chosen.clamp(min=0)] == 1)
    free = ~goes & (torch.arange(lanes, device=chosen.device) < usable)
    number = ends[0] + free.cumsum(0) - 1
    taken = free & (number < ends[1])
    chosen = torch.where(taken, line[number % len(line)], chosen.masked_fill(~goes, -1))
    ends[2] = ends[0] + taken.sum()
    occupied, row = chosen >= 0, chosen.clamp(min=0)
    gathered[0][:-1, :lanes] = ints[:, row] * occupied
    gathered[0][ALIVE, :lanes] = occupied.long()
    gathered[0][-1, :lanes] = chosen
    nobody = (torch.arange(len(numbers), device=chosen.device) < SETTINGS).to(numbers.dtype)[:, None]
    gathered[1][:, :lanes] = torch.where(occupied, numbers[:, row], nobody)
    gathered[2][:lanes] = table[row] * occupied[:, None]


def choose(
    rows: int,
    logits: Tensor,
    statistics: tuple[Tensor, Tensor, Tensor],
    temperature: Tensor,
    uniform: Tensor,
    lanes: Tensor,
    table: Tensor,
    written: tuple[Tensor, Tensor, Tensor],
    state: Tensor,
    waiting: tuple[Tensor, Tensor, Tensor],
    cuts: tuple[Tensor, ...] | None = None,
) -> None:
    live = lanes[ALIVE, :rows] > 0
    _, position, at, last, _, stops, top_k, whose = lanes[:, :rows][:, live]
    peak = statistics[0][:rows][live]
    top, masses, gap = _gathered(*(x[:rows][live] for x in statistics))
    wide = masses.double()
    running = wide.cumsum(-1)
    goal = uniform[at][:, None] * running[:, -1:]
    tile = torch.searchsorted(running, goal, right=True).clamp(max=running.shape[1] - 1)
    greedy = top_k == 1
    tile = peak.argmax(-1, keepdim=True).where(greedy[:, None], tile)
    z = logits[:rows][live] / temperature[:rows][live][:, None]
    if cuts is not None:
        cut, edge = (x[:rows][live][:, None] for x in cuts[:2])
        depth, number = (top - z).abs(), torch.arange(z.shape[1], device=z.device)
        z = z.masked_fill((depth > cut) | ((depth == cut) & (number > edge)), float("-inf"))
    z = _tiled(z).gather(1, tile[..., None].expand(-1, 1, VOCABULARY_TILE)).squeeze(1)
    inside = (z - top).exp().double().cumsum(-1)
    rest = goal - (running - wide).gather(1, tile)
    rest = torch.minimum(rest, inside[:, -1:] * (1 - 2.0**-40))
    chosen = torch.searchsorted(inside, rest, right=True).clamp(max=VOCABULARY_TILE - 1)
    chosen = z.argmax(-1, keepdim=True).where(greedy[:, None], chosen)
    norm = running[:, -1].float().log()
    new = (tile * VOCABULARY_TILE + chosen).squeeze(1)
    ids, logp, entropy = written
    ids[at] = new
    logp[at] = (z.gather(1, chosen).squeeze(1) - top.squeeze(1) - norm).masked_fill(greedy, 0.0)
    entropy[at] = (norm - gap / running[:, -1].float()).masked_fill(greedy, 0.0)
    mark = table[stops, new]
    lane, ends, seen = waiting
    ends[0] = ends[2]
    reported, over = (mark > 0) | (at == last), (mark == 2) | (at == last)
    seen[whose[reported]] = (last - at + 1)[reported]
    state[ALIVE, whose] = (~over).long()
    for what, value in enumerate((new, position + 1, at + 1)):
        state[what, whose[~over]] = value[~over]
    lane[:rows] = -1
    lane[:rows][live] = whose.masked_fill(over, -1)
