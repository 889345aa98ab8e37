"""The draw of every row's next token and what follows from it, in one Triton launch.

The head's product has left the peak and the mass of every tile of tokens. A row's random number falls into one tile,
and only the logits of that tile are read: a few kilobytes a row instead of the whole vocabulary.
"""

# Triton reads the annotations of a kernel's parameters: no postponed evaluation here.
import triton
import triton.language as tl

from podium.policy.cuda.decode_kernels import follow

__all__ = ["choose"]


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
    top_k,  # 1: the most likely token; others are not known here
    table,  # [sets, vocabulary] int8: 0 goes on, 1 the host must look, 2 ends
    ids,  # [slot · token] int64
    logp,  # [slot · token] float32
    entropy,  # [slot · token] float32
    seen,  # [rows] int8: whether the host must look
    vocabulary,
    tiles,
    TILES: tl.constexpr,
    N: tl.constexpr,
    PDL: tl.constexpr,
):
    """One row: the first token at which the running sum of p exceeds the row's number; then its state moves on."""
    follow(PDL)
    row = tl.program_id(0)
    if tl.load(alive + row) > 0:
        at = tl.load(flat + row)
        tile = tl.arange(0, TILES)
        there = tile < tiles
        peaks = tl.load(peak + row * tiles + tile, mask=there, other=float("-inf"))
        top = tl.max(peaks, 0)
        shrink = tl.where(there, tl.exp(peaks - top), 0.0)
        masses = tl.load(mass + row * tiles + tile, mask=there, other=0.0) * shrink
        moments = tl.load(moment + row * tiles + tile, mask=there, other=0.0) * shrink
        # Σ (z − top) e^(z − top)
        gap = tl.sum(moments + tl.where(masses > 0, masses * (peaks - top), 0.0), 0)
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
        z = tl.load(
            logits + row.to(tl.int64) * vocabulary + candidate, mask=candidate < vocabulary, other=float("-inf")
        ) / tl.load(temperature + row)
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
