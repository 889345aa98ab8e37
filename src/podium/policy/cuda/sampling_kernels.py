"""The draw of every row's next token and what follows from it, in one Triton launch, or two where rows are warmed.

The head's product has left the peak and the mass of every tile of tokens. A row's random number falls into one tile,
and only the logits of that tile are read: a few kilobytes a row instead of the whole vocabulary. Where rows are
truncated, `truncate` (truncation_kernels.py) has left the mass of the tokens that may be drawn.
"""

# Triton reads the annotations of a kernel's parameters: no postponed evaluation here.
import triton
import triton.language as tl

from podium.policy.cuda.decode_kernels import follow

__all__ = ["choose", "warm"]


@triton.jit
def _gathered(peak, mass, moment, row, tiles, TILES: tl.constexpr):
    """A row's tiles: their peaks and the largest of them; their masses on its scale; and Σ (z − top) e^(z − top)."""
    tile = tl.arange(0, TILES)
    there = tile < tiles
    peaks = tl.load(peak + row * tiles + tile, mask=there, other=float("-inf"))
    top = tl.max(peaks, 0)
    shrink = tl.where(there, tl.exp(peaks - top), 0.0)
    masses = tl.load(mass + row * tiles + tile, mask=there, other=0.0) * shrink
    moments = tl.load(moment + row * tiles + tile, mask=there, other=0.0) * shrink
    gap = tl.sum(moments + tl.where(masses > 0, masses * (peaks - top), 0.0), 0)
    return peaks, top, masses, gap


@triton.jit(do_not_specialize=["tiles", "stride"])
def warm(
    logits,  # [rows, vocabulary] float32
    peak,  # [rows, tiles] float32
    mass,
    moment,
    temperature,  # [rows] float32
    warmth,  # [4, stride] float32: strength, pivot, slopes above and below
    heat,  # [rows] float32: the temperature with which the row goes on
    new_peak,  # [rows, tiles] float32: the statistics at that temperature
    new_mass,
    new_moment,
    vocabulary,
    tiles,
    stride,
    TILES: tl.constexpr,
    N: tl.constexpr,
    BLOCK: tl.constexpr,
    PDL: tl.constexpr,
):
    """Some tiles of one row at the temperature that follows from its entropy. Moves them in once, if it changes."""
    follow(PDL)
    row = tl.program_id(0)
    number = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = number < tiles
    at = row * tiles + number
    own = tl.load(temperature + row)
    strength = tl.load(warmth + row)
    most = tl.load(peak + at, mask=there, other=0.0)
    total = tl.load(mass + at, mask=there, other=0.0)
    spread = tl.load(moment + at, mask=there, other=0.0)
    if strength != 0.0:
        _, _, masses, gap = _gathered(peak, mass, moment, row, tiles, TILES)
        whole = tl.sum(masses.to(tl.float64), 0).to(tl.float32)
        apart = tl.log(tl.maximum(tl.log(whole) - gap / whole, 1e-8)) - tl.load(warmth + stride + row)
        slope = tl.load(warmth + tl.where(apart > 0, 2, 3) * stride + row)
        own = own * (1.0 + strength * tl.maximum(tl.minimum(slope * apart, 1.0), -1.0))
        token = number[:, None] * N + tl.arange(0, N)[None, :]
        x = tl.load(logits + row.to(tl.int64) * vocabulary + token, mask=token < vocabulary, other=0.0)
        z = tl.where(token < vocabulary, tl.div_rn(x, own), -1e38)
        most = tl.max(z, 1)
        share = tl.exp(z - most[:, None])
        total = tl.sum(share, 1)
        spread = tl.sum((z - most[:, None]) * share, 1)
    tl.store(heat + row, own)
    tl.store(new_peak + at, most, mask=there)
    tl.store(new_mass + at, total, mask=there)
    tl.store(new_moment + at, spread, mask=there)


@triton.jit(do_not_specialize=["tiles"])
def choose(
    logits,  # [rows, vocabulary] float32
    peak,  # [rows, tiles] float32
    mass,
    moment,
    temperature,  # [rows] float32
    uniform,  # [slot · token] float64
    token,  # [rows] int64, as all of a row's integers
    position,
    flat,  # where the row's next token is written
    last,  # where its last one may be
    alive,
    stops,  # its row of `table`
    top_k,  # 1: the most likely token
    table,  # [sets, vocabulary] int8: 0 goes on, 1 the host must look, 2 ends
    ids,  # [slot · token] int64
    logp,  # [slot · token] float32
    entropy,  # [slot · token] float32
    seen,  # [rows] int8: whether the host must look
    cut,  # [rows] float32: how far below the largest z a token may lie
    edge,  # [rows] int32: the last token that may lie just there
    vocabulary,
    tiles,
    TILES: tl.constexpr,
    N: tl.constexpr,
    TRUNCATED: tl.constexpr,
    PDL: tl.constexpr,
):
    """One row: the first token at which the running sum of p exceeds the row's number; then its state moves on."""
    follow(PDL)
    row = tl.program_id(0)
    if tl.load(alive + row) > 0:
        at = tl.load(flat + row)
        tile = tl.arange(0, TILES)
        peaks, top, masses, gap = _gathered(peak, mass, moment, row, tiles, TILES)
        wide = masses.to(tl.float64)
        running = tl.cumsum(wide, 0)
        whole = tl.sum(wide, 0)
        goal = tl.load(uniform + at) * tl.max(running, 0)
        greedy = tl.load(top_k + row) == 1
        found = tl.minimum(tl.sum((running <= goal).to(tl.int32), 0), tiles - 1)
        found = tl.where(greedy, tl.argmax(peaks, 0), found)
        before = tl.sum(tl.where(tile == found, running - wide, 0.0), 0)
        lane = tl.arange(0, N)
        candidate = found * N + lane
        own = logits + row.to(tl.int64) * vocabulary + candidate
        z = tl.div_rn(tl.load(own, mask=candidate < vocabulary, other=float("-inf")), tl.load(temperature + row))
        if TRUNCATED:
            depth, lowest = tl.abs(top - z), tl.load(cut + row)
            left = (depth < lowest) | ((depth == lowest) & (candidate <= tl.load(edge + row)))
            z = tl.where(left, z, float("-inf"))
        inside = tl.cumsum(tl.exp(z - top).to(tl.float64), 0)
        # Sums of a tile in two ways may differ in the last bit: the goal stays inside the tile, where p > 0.
        rest = tl.minimum(goal - before, tl.max(inside, 0) * (1 - 2.0**-40))
        chosen = tl.minimum(tl.sum((inside <= rest).to(tl.int32), 0), N - 1)
        chosen = tl.where(greedy, tl.argmax(z, 0), chosen)
        norm = tl.log(whole.to(tl.float32))
        new = (found * N + chosen).to(tl.int64)
        tl.store(ids + at, new)
        # The log-probability and entropy of the distribution drawn from, which has one token if greedy.
        tl.store(logp + at, tl.where(greedy, 0.0, tl.sum(tl.where(lane == chosen, z, 0.0), 0) - top - norm))
        tl.store(entropy + at, tl.where(greedy, 0.0, norm - gap / whole.to(tl.float32)))
        mark = tl.load(table + tl.load(stops + row) * vocabulary + new)
        if mark > 0:
            tl.store(seen + row, 1)
        # A row that has ended keeps its token and position: the step repeats itself until somebody takes the row.
        if (mark == 2) | (at == tl.load(last + row)):
            tl.store(alive + row, 0)
        else:
            tl.store(token + row, new)
            tl.store(position + row, tl.load(position + row) + 1)
            tl.store(flat + row, at + 1)
