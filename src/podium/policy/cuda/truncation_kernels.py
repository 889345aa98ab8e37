"""Which tokens of a row top-k, top-p and min-p keep, in one Triton launch between the head's product and the draw.

A token's depth is how far z = logit / temperature lies below the row's largest: a float32 that is never negative, whose
bits as an integer have the same order. Tokens are ranked by depth, then by id; each filter keeps the first ones. So
there is a last depth, the cut, and a last token of that depth, the edge:

    top-k   the smallest cut up to which there are k tokens
    top-p   the smallest cut up to which the mass is p of what top-k keeps
    min-p   the depth −log(min-p)

Division by the temperature is correctly rounded, here and where the peaks of tiles are computed: a token that is the
peak of its tile has exactly the depth of that peak.

The statistics of tiles bound the cut, and only tiles that reach above the bound are read. The tokens between the bounds
are listed, and the cut is searched in the list, which is held in registers. A distribution so flat that the list is too
long is sampled first: the cut is then searched where the sample suggests, and elsewhere if it is not there. Finally the
statistics of tiles are rewritten for the tokens that are kept; `choose` draws from these.
"""

# Triton reads the annotations of a kernel's parameters: no postponed evaluation here.
import triton
import triton.language as tl

from podium.policy.cuda.decode_kernels import follow

__all__ = ["truncate"]

LAST = tl.constexpr(0x7F800000)  # the largest depth: infinity
BEYOND = tl.constexpr(0x7FFFFFFF)  # the depth of padding


@triton.jit
def _depth(z, top):
    return tl.abs(top - z).to(tl.int32, bitcast=True)


@triton.jit
def _share(depth):
    """e^(z − top)"""
    return tl.exp(-depth.to(tl.float32, bitcast=True))


@triton.jit
def _listed(peak, top, upto, listed, tiles, TILES: tl.constexpr):
    """List the tiles that have a token within a depth, in order; returns their number."""
    tile = tl.arange(0, TILES)
    there = tile < tiles
    chosen = there & (_depth(tl.load(peak + tile, mask=there, other=-1e38), top) <= upto)
    place = tl.cumsum(chosen.to(tl.int32), 0) - 1
    tl.debug_barrier()  # others may still read the last list
    tl.store(listed + place, tile, mask=chosen)
    tl.debug_barrier()
    return tl.sum(chosen.to(tl.int32), 0)


@triton.jit
def _bounded(peak, mass, top, goal, whole, by_mass, high, tiles, N: tl.constexpr, TILES: tl.constexpr):
    """A depth up to which there is enough weight by the statistics of tiles: at most `high`.

    It is deep enough for top-k if k tiles reach up to it, and for top-p if little lies below it. Below it lies all of a
    tile that does not reach up to it, and of others neither the peak nor more than N tokens of that depth.
    """
    tile = tl.arange(0, TILES)
    there = tile < tiles
    peaks = tl.load(peak + tile, mask=there, other=-1e38)
    shares = tl.exp(peaks - top)  # weights of the peaks
    masses = tl.load(mass + tile, mask=there, other=0.0) * shares
    depths = tl.where(there, _depth(peaks, top), BEYOND)
    little = (whole - goal - 1e-5 * whole).to(tl.float32)
    low = tl.full((), -1, tl.int32)
    for _ in range(14):
        middle = low + (high - low) // 2
        reach = depths <= middle
        below = tl.sum(tl.where(reach, tl.minimum(masses - shares, N * _share(middle)), masses), 0)
        above = tl.sum(reach.to(tl.float32), 0)
        enough = tl.where(by_mass, below <= little, above >= goal.to(tl.float32))
        high = tl.where(enough, middle, high)
        low = tl.where(enough, low, middle)
    return high


@triton.jit
def _block(logits, listed, start, count, vocabulary, N: tl.constexpr, BLOCK: tl.constexpr):
    """A block of listed tiles: whether each exists, its tokens, and their logits."""
    number = start + tl.arange(0, BLOCK)
    there = number < count
    tile = tl.load(listed + number, mask=there, other=0)
    token = tile[:, None] * N + tl.arange(0, N)[None, :]
    inside = there[:, None] & (token < vocabulary)
    # NaN lies deeper than any cut.
    return tile, there, token, tl.load(logits + token, mask=inside, other=float("nan"))


@triton.jit
def _reached(depths, weights, middle):
    return tl.sum(tl.where(depths <= middle, weights, 0.0), 0)


@triton.jit
def _bisected(depths, weights, goal, low, high):
    """The smallest depth in (low, high] up to which these tokens have the weight `goal`; high, if there is none."""
    while high - low > 1:
        middle = low + (high - low) // 2
        enough = _reached(depths, weights, middle) >= goal
        high = tl.where(enough, middle, high)
        low = tl.where(enough, low, middle)
    return high


@triton.jit
def _guessed(logits, heat, top, goal, whole, by_mass, low, high, vocabulary, SAMPLE: tl.constexpr):
    """Bounds within which the cut very likely lies, by a sample of runs of 8 tokens."""
    run = tl.arange(0, SAMPLE) // 8
    token = (run.to(tl.int64) * vocabulary // (SAMPLE // 8)).to(tl.int32) + tl.arange(0, SAMPLE) % 8
    inside = token < vocabulary
    z = tl.div_rn(tl.load(logits + token, mask=inside, other=0.0), heat)
    depths = tl.where(inside, _depth(z, top), BEYOND)
    weights = tl.where(inside, tl.where(by_mass, _share(depths), 1.0), 0.0)
    total = tl.sum(weights, 0)
    part = (goal / whole).to(tl.float32)
    one = tl.sum(weights * weights, 0) / total  # the typical weight of a token
    # Four standard deviations of the weight up to the cut, plus one token.
    error = 4.0 * tl.sqrt(total * one * tl.maximum(part * (1.0 - part), 0.0)) + one
    below = _bisected(depths, weights, part * total - error, low, high) - 1
    return below, _bisected(depths, weights, part * total + error, below, high)


@triton.jit
def _between(
    logits, heat, top, listed, found, count, below, upto, by_mass, brief, vocabulary,
    N: tl.constexpr, BLOCK: tl.constexpr, ROOM: tl.constexpr,
):  # fmt: skip
    """List the depths in (below, upto] of tokens in the listed tiles: the weight before them, their weight and number.
    With `brief`, stop when there are too many."""
    tl.debug_barrier()  # others may still read the last list
    before = tl.zeros((BLOCK, N), tl.float32)
    here = tl.zeros((BLOCK, N), tl.float32)
    many = tl.full((), 0, tl.int32)
    start = tl.full((), 0, tl.int32)
    _, _, _, following = _block(logits, listed, start, count, vocabulary, N, BLOCK)
    while (start < count) & ((many <= ROOM) | (brief == 0)):
        depth = _depth(tl.div_rn(following, heat), top)
        start += BLOCK
        _, _, _, following = _block(logits, listed, start, count, vocabulary, N, BLOCK)  # loads in the meantime
        weight = tl.where(by_mass, _share(depth), 1.0)
        new = (depth > below) & (depth <= upto)
        before += tl.where(depth <= below, weight, 0.0)
        here += tl.where(new, weight, 0.0)
        own = tl.sum(new.to(tl.int32), 1)  # of each tile
        place = many + (tl.cumsum(own, 0) - own)[:, None] + tl.cumsum(new.to(tl.int32), 1) - 1
        tl.store(found + place, depth, mask=new & (place < ROOM))
        many += tl.sum(own, 0)
    tl.debug_barrier()
    return tl.sum(tl.sum(before.to(tl.float64), 1), 0), tl.sum(tl.sum(here.to(tl.float64), 1), 0), many


@triton.jit
def _searched(
    logits, peak, heat, top, listed, found, goal, whole, by_mass, high, vocabulary, tiles,
    TILES: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr, ROOM: tl.constexpr, SAMPLE: tl.constexpr,
):  # fmt: skip
    """The smallest cut, at most `high`, up to which tokens have the weight `goal`; how many tokens at the cut are
    needed for it, and how many there are."""
    low = tl.full((), -1, tl.int32)
    below = low
    upto = high
    tries = tl.full((), 0, tl.int32)
    done = tl.full((), 0, tl.int32)
    before = tl.full((), 0.0, tl.float64)
    many = tl.full((), 0, tl.int32)
    while done == 0:
        count = _listed(peak, top, upto, listed, tiles, TILES)
        before, weight, many = _between(
            logits, heat, top, listed, found, count, below, upto, by_mass, tries == 0, vocabulary, N, BLOCK, ROOM
        )
        if (tries == 0) & (many > ROOM):
            below, upto = _guessed(logits, heat, top, goal, whole, by_mass, low, high, vocabulary, SAMPLE)
        else:
            if (before >= goal) & (below > low):
                high = below
            elif (before + weight < goal) & (upto < high):
                low = upto
            else:
                low = below
                high = upto
                done = ((many <= ROOM) | (upto - below <= 1)).to(tl.int32)
            third = (high - low) // 3
            below = low + third
            upto = below + tl.maximum(third, 1)
        tries += 1
    place = tl.arange(0, ROOM)
    own = tl.load(found + place, mask=place < many, other=BEYOND)
    weights = tl.where(by_mass, _share(own), 1.0)
    high = _bisected(own, weights, (goal - before).to(tl.float32), low, high)
    lacking = (goal - before).to(tl.float32) - _reached(own, weights, high - 1)
    # If they do not all fit in the list, they all have the same depth.
    equal = tl.where(many > ROOM, many, tl.sum((own == high).to(tl.int32), 0))
    needed = tl.ceil(lacking / tl.where(by_mass, _share(high), 1.0))
    return high, tl.maximum(tl.minimum(needed, equal.to(tl.float32)), 1.0).to(tl.int32), equal


@triton.jit
def _mass(
    logits, peak, heat, top, listed, cut, ties, vocabulary, tiles,
    TILES: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The mass of the tokens before a cut and of some at it."""
    count = _listed(peak, top, cut, listed, tiles, TILES)
    total = tl.zeros((BLOCK, N), tl.float32)
    for start in range(0, count, BLOCK):
        _, _, _, x = _block(logits, listed, start, count, vocabulary, N, BLOCK)
        depth = _depth(tl.div_rn(x, heat), top)
        total += tl.where(depth < cut, _share(depth), 0.0)
    return tl.sum(tl.sum(total.to(tl.float64), 1), 0) + ties * _share(cut).to(tl.float64)


@triton.jit
def _edge(logits, heat, top, listed, count, cut, needed, vocabulary, N: tl.constexpr, BLOCK: tl.constexpr):
    """The `needed`-th token of the cut's depth, in the order of ids."""
    final = tl.full((), -1, tl.int32)
    seen = tl.full((), 0, tl.int32)
    start = tl.full((), 0, tl.int32)
    while (seen < needed) & (start < count):
        _, _, token, x = _block(logits, listed, start, count, vocabulary, N, BLOCK)
        tie = (_depth(tl.div_rn(x, heat), top) == cut).to(tl.int32)
        own = tl.sum(tie, 1)  # of each tile
        rank = seen + (tl.cumsum(own, 0) - own)[:, None] + tl.cumsum(tie, 1)
        final = tl.maximum(final, tl.max(tl.max(tl.where((tie > 0) & (rank <= needed), token, -1), 1), 0))
        seen += tl.sum(own, 0)
        start += BLOCK
    return final


@triton.jit(do_not_specialize=["tiles"])
def truncate(
    logits,  # [rows, vocabulary] float32
    peak,  # [rows, tiles] float32: of z in each tile
    mass,  # [rows, tiles] float32: Σ e^(z − peak); on return, over the tokens that are kept
    moment,  # [rows, tiles] float32: Σ (z − peak) e^(z − peak), likewise
    temperature,  # [rows] float32
    alive,  # [rows] int64
    top_k,  # [rows] int64; 0: all, 1: `choose` takes the most likely token
    top_p,  # [rows] float32; 1: all
    min_p,  # [rows] float32; 0: all
    cut,  # [rows] float32; infinity: all tokens are kept
    edge,  # [rows] int32
    listed,  # [rows, tiles] int32: indices of tiles
    found,  # [rows, ROOM] int32: depths
    vocabulary,
    tiles,
    TILES: tl.constexpr,
    N: tl.constexpr,
    BLOCK: tl.constexpr,
    ROOM: tl.constexpr,
    SAMPLE: tl.constexpr,
    PDL: tl.constexpr,
):
    """The cut and the edge of one row, and the statistics of what is kept. Rows without a filter stay as they are.

    Moves the tiles that reach above the bound in once, and those above the cut once more; of flat rows, all of them
    two or three times.
    """
    follow(PDL)
    row = tl.program_id(0)
    k = tl.load(top_k + row)
    k = tl.where(k < vocabulary, k, 0).to(tl.int32)
    p = tl.load(top_p + row)
    m = tl.load(min_p + row)
    tl.store(cut + row, float("inf"))
    tl.store(edge + row, vocabulary)
    if (tl.load(alive + row) > 0) & (k != 1) & ((k > 0) | (p < 1.0) | (m > 0.0)):
        logits += row.to(tl.int64) * vocabulary
        peak += row * tiles
        mass += row * tiles
        moment += row * tiles
        listed += row * tiles
        found += row * ROOM
        heat = tl.load(temperature + row)
        tile = tl.arange(0, TILES)
        peaks = tl.load(peak + tile, mask=tile < tiles, other=-1e38)
        top = tl.max(peaks, 0)
        whole = tl.sum((tl.load(mass + tile, mask=tile < tiles, other=0.0) * tl.exp(peaks - top)).to(tl.float64), 0)
        lowest = tl.where(m > 0.0, (0.0 - tl.log(m)).to(tl.int32, bitcast=True), LAST)

        high = tl.full((), LAST, tl.int32)
        needed = tl.full((), BEYOND, tl.int32)  # how many tokens of the cut's depth are kept
        equal = tl.full((), 0, tl.int32)  # and how many there are
        left = whole
        for by_mass in range(2):
            if ((by_mass == 0) & (k > 0)) | ((by_mass == 1) & (p < 1.0)):
                goal = tl.where(by_mass == 1, p.to(tl.float64) * left, k.to(tl.float64))
                total = tl.where(by_mass == 1, whole, tl.full((), vocabulary, tl.float64))
                # Top-p is a share of what top-k keeps, before min-p: its cut is never deeper.
                limit = high
                if (by_mass == 1) | (p >= 1.0):
                    high = tl.minimum(high, lowest)
                high = _bounded(peak, mass, top, goal, whole, by_mass == 1, high, tiles, N, TILES)
                high, own, equal = _searched(
                    logits, peak, heat, top, listed, found, goal, total, by_mass == 1, high, vocabulary, tiles,
                    TILES, N, BLOCK, ROOM, SAMPLE,
                )  # fmt: skip
                needed = tl.where(high == limit, tl.minimum(needed, own), own)
                if (by_mass == 0) & (p < 1.0):
                    left = _mass(logits, peak, heat, top, listed, high, needed, vocabulary, tiles, TILES, N, BLOCK)
        if lowest < high:
            high = lowest
            equal = 0

        count = _listed(peak, top, high, listed, tiles, TILES)
        final = tl.full((), vocabulary, tl.int32)
        if needed < equal:
            final = _edge(logits, heat, top, listed, count, high, needed, vocabulary, N, BLOCK)
        tl.store(cut + row, high.to(tl.float32, bitcast=True))
        tl.store(edge + row, final)
        gone = (tile < tiles) & (_depth(tl.load(peak + tile, mask=tile < tiles, other=-1e38), top) > high)
        tl.store(mass + tile, tl.zeros((TILES,), tl.float32), mask=gone)
        tl.store(moment + tile, tl.zeros((TILES,), tl.float32), mask=gone)
        for first in range(0, count, BLOCK):
            number, mine, ids, x = _block(logits, listed, first, count, vocabulary, N, BLOCK)
            z = tl.div_rn(x, heat)
            depth = _depth(z, top)
            stays = (depth < high) | ((depth == high) & (ids <= final))
            gap = tl.where(stays, z - tl.load(peak + number)[:, None], 0.0)
            share = tl.where(stays, tl.exp(gap), 0.0)
            tl.store(mass + number, tl.sum(share, 1), mask=mine)
            tl.store(moment + number, tl.sum(gap * share, 1), mask=mine)
