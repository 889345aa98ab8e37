"""The parts of a decode step around the layers, in Triton: which rows take part in it, the draw, and the new state.

Each lane advances a row; lanes without one take the next row of the queue, `line` (`assemble`). The head's product
leaves the peak and the mass of every tile of tokens. A lane's random number falls into one tile, and only the logits of
that tile are read: a few kilobytes per lane instead of the whole vocabulary (`choose`). Where rows are truncated,
`truncate` (truncation_kernels.py) has left the mass of the tokens that may be drawn.
"""

# Triton reads the annotations of a kernel's parameters: no postponed evaluation here.
import triton
import triton.language as tl

from podium.policy.cuda.decode_kernels import follow

__all__ = ["assemble", "choose", "warm"]


@triton.jit(do_not_specialize=["lanes", "usable", "places", "stride", "most"])
def assemble(
    lane,  # [lanes] int64: the row that it advances; −1: none
    line,  # [places] int64: the queue of waiting rows, a ring buffer: the n-th at n modulo `places`
    ends,  # [3] int64: how many have left the queue, have joined it, and will have left it after this step
    ints,  # [COUNT, stride] int64: the state of rows
    numbers,  # [NUMBERS, stride] float32
    table,  # [rows, most] int32
    here,  # [COUNT + 1, stride] int64: the state of lanes, and their rows
    here_numbers,  # [NUMBERS, stride] float32
    front,  # [lanes, most] int32
    lanes,
    usable,
    places,
    stride,
    most,
    LANES: tl.constexpr,  # at least `lanes`
    COUNT: tl.constexpr,
    NUMBERS: tl.constexpr,
    SETTINGS: tl.constexpr,  # how many of the floats are 1 where there is no row
    ALIVE: tl.constexpr,
):
    """One lane: the row that it advances, or the next one in the queue, and the state of that row.

    Whose row has ended is seen by all lanes alike, so that each finds its place among those that take a new one.
    """
    own = tl.program_id(0)
    other = tl.arange(0, LANES)
    rows = tl.load(lane + other, mask=other < lanes, other=-1)
    goes = tl.load(ints + ALIVE * stride + rows, mask=rows >= 0, other=0) == 1
    free = ((other < usable) & ~goes).to(tl.int32)
    before = tl.sum(tl.where(other < own, free, 0), 0)
    left, joined = tl.load(ends), tl.load(ends + 1)
    row = tl.sum(tl.where((other == own) & goes, rows + 1, 0), 0) - 1
    if (row < 0) & (own < usable) & (left + before < joined):
        row = tl.load(line + (left + before) % places)
    if own == 0:
        tl.store(ends + 2, tl.minimum(left + tl.sum(free, 0), joined))
    there = row >= 0
    field = tl.arange(0, 16)
    value = tl.load(ints + field * stride + row, mask=(field < COUNT) & there, other=0)
    value = tl.where(field == ALIVE, there.to(tl.int64), value)
    value = tl.where(field == COUNT, row, value)
    tl.store(here + field * stride + own, value, mask=field <= COUNT)
    number = tl.load(numbers + field * stride + row, mask=(field < NUMBERS) & there, other=0.0)
    number = tl.where(there | (field >= SETTINGS), number, 1.0)
    tl.store(here_numbers + field * stride + own, number, mask=field < NUMBERS)
    for start in range(0, most, 128):
        page = start + tl.arange(0, 128)
        named = tl.load(table + row * most + page, mask=(page < most) & there, other=0)
        tl.store(front + own * most + page, named, mask=page < most)


@triton.jit
def _gathered(peak, mass, moment, row, tiles, TILES: tl.constexpr):
    """A row's tiles: their peaks and the largest (top); their masses relative to it; and Σ (z − top) e^(z − top)."""
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
    heat,  # [rows] float32: the adapted temperature
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
    """Some tiles of one row at the temperature adapted to its entropy. Reads them once, if the temperature changes."""
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


@triton.jit(do_not_specialize=["tiles", "stride"])
def choose(
    logits,  # [lanes, vocabulary] float32
    peak,  # [lanes, tiles] float32
    mass,
    moment,
    temperature,  # [lanes] float32
    uniform,  # [slot · token] float64
    here,  # [8, stride] int64, of lanes: token, position, where its next and its last token are written, whether there
    # is a row, its row of `table`, top-k (1: the most likely token), and the row
    table,  # [sets, vocabulary] int8: 0 the row continues, 1 the host must look at it, 2 it ends
    ids,  # [slot · token] int64
    logp,  # [slot · token] float32
    entropy,  # [slot · token] float32
    state,  # [7, stride] int64: the new state of rows
    lane,  # [lanes] int64
    ends,  # [3] int64: how many have left the queue, have joined it, and will have left it now
    seen,  # [rows] int64: 1 + how many tokens it may still write, if the host must look at it
    cut,  # [lanes] float32: how far below the largest z a token may lie
    edge,  # [lanes] int32: the last token that may lie exactly there
    vocabulary,
    tiles,
    stride,
    TILES: tl.constexpr,
    N: tl.constexpr,
    TRUNCATED: tl.constexpr,
    PDL: tl.constexpr,
):
    """One lane: the first token at which the running sum of p exceeds its random number; then its row's new state."""
    follow(PDL)
    row = tl.program_id(0)
    if row == 0:
        tl.store(ends, tl.load(ends + 2))
    here += row
    if tl.load(here + 4 * stride) == 0:
        tl.store(lane + row, -1)
    else:
        at, last = tl.load(here + 2 * stride), tl.load(here + 3 * stride)
        tile = tl.arange(0, TILES)
        peaks, top, masses, gap = _gathered(peak, mass, moment, row, tiles, TILES)
        wide = masses.to(tl.float64)
        running = tl.cumsum(wide, 0)
        whole = tl.sum(wide, 0)
        goal = tl.load(uniform + at) * tl.max(running, 0)
        greedy = tl.load(here + 6 * stride) == 1
        found = tl.minimum(tl.sum((running <= goal).to(tl.int32), 0), tiles - 1)
        found = tl.where(greedy, tl.argmax(peaks, 0), found)
        before = tl.sum(tl.where(tile == found, running - wide, 0.0), 0)
        number = tl.arange(0, N)
        candidate = found * N + number
        own = logits + row.to(tl.int64) * vocabulary + candidate
        z = tl.div_rn(tl.load(own, mask=candidate < vocabulary, other=float("-inf")), tl.load(temperature + row))
        if TRUNCATED:
            depth, lowest = tl.abs(top - z), tl.load(cut + row)
            left = (depth < lowest) | ((depth == lowest) & (candidate <= tl.load(edge + row)))
            z = tl.where(left, z, float("-inf"))
        inside = tl.cumsum(tl.exp(z - top).to(tl.float64), 0)
        # The two sums of a tile may differ in the last bit: the goal is kept inside the tile, where p > 0.
        rest = tl.minimum(goal - before, tl.max(inside, 0) * (1 - 2.0**-40))
        chosen = tl.minimum(tl.sum((inside <= rest).to(tl.int32), 0), N - 1)
        chosen = tl.where(greedy, tl.argmax(z, 0), chosen)
        norm = tl.log(whole.to(tl.float32))
        new = (found * N + chosen).to(tl.int64)
        tl.store(ids + at, new)
        # The log-probability and entropy of the distribution drawn from, which has one token if greedy.
        tl.store(logp + at, tl.where(greedy, 0.0, tl.sum(tl.where(number == chosen, z, 0.0), 0) - top - norm))
        tl.store(entropy + at, tl.where(greedy, 0.0, norm - gap / whole.to(tl.float32)))
        mark = tl.load(table + tl.load(here + 5 * stride) * vocabulary + new)
        whose = tl.load(here + 7 * stride)
        state += whose
        if (mark > 0) | (at == last):
            tl.store(seen + whose, last - at + 1)
        if (mark == 2) | (at == last):
            tl.store(state + 4 * stride, 0)
            tl.store(lane + row, -1)
        else:
            tl.store(state, new)
            tl.store(state + stride, tl.load(here + stride) + 1)
            tl.store(state + 2 * stride, at + 1)
            tl.store(state + 4 * stride, 1)
            tl.store(lane + row, whose)
