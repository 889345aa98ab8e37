"""Triton kernels of the decode step: a layer of the decoder in seven launches.

    assemble                  which rows take part in the step (sampling_kernels.py)
    divide                    which chunks of keys there are (decode_attention.py)
    embed                     x = embedding[token]
    per layer:     settle     x += the last product; y = norm(x)
                   project    q, k, v = y Wᵀ with rotary embedding; k and v go to their pages
                   attend     (decode_attention.py)
                   product    attended Wᵀ
                   settle     x += it; y = norm(x)
                   gate       inside = silu(y Gᵀ) · y Uᵀ
                   product    inside Dᵀ
    settle, score             logits = y Hᵀ with the peak and mass of every tile of them
    choose                    the next token (sampling_kernels.py), after warm and truncate where rows need them

The residual stream x is float32. A product with few columns and a long sum is split along the sum, to use the whole
GPU; `settle` adds the parts in order. How a product is split does not depend on the number of rows, so that the numbers
of a row are the same in any batch.

At 256 rows the memory traffic is the weights, once; everything else fits in the L2 cache, whose traffic is decided by
the shapes of the tiles. Matrices are loaded by the copy engine (TMA). A kernel is launched before its predecessor has
ended (programmatic dependent launch), and until then reads what does not depend on it: its weights, and the positions
of the rows. The first kernel of a step waits for the previous step, which makes this safe for the others.
"""

# Triton reads the annotations of a kernel's parameters: no postponed evaluation here.
import triton
import triton.language as tl

from podium.policy.cuda.arithmetic import gated as gated_by
from podium.policy.cuda.arithmetic import norm_scale, squares, turned

__all__ = ["embed", "follow", "gate", "product", "project", "score", "settle"]


@triton.jit
def follow(PDL: tl.constexpr):
    """Allow the next kernel to launch now, and wait for what the previous kernel wrote."""
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()


@triton.jit
def _fetch(place):
    """Prefetch cache lines of 128 bytes to the L2 cache while the previous kernel still runs."""
    asked: tl.constexpr = "{ prefetch.global.L2 [$1]; mov.u32 $0, 0; }"
    tl.inline_asm_elementwise(asked, "=r,l", [place.to(tl.int64, bitcast=True)], tl.int32, is_pure=False, pack=1)


@triton.jit
def _fetch_columns(weight, n, begin, length, count, inner, LINES: tl.constexpr):
    """Prefetch a range of inner indices of some output columns of a weight [count, inner]."""
    line: tl.constexpr = 128 // (weight.dtype.element_ty.primitive_bitwidth // 8)
    k = tl.minimum(begin + tl.minimum(tl.arange(0, LINES) * line, length - 1), inner - 1)
    column = tl.minimum(n, count - 1)
    _fetch(weight + column[:, None].to(tl.int64) * inner + k[None, :])


@triton.jit
def embed(token, table, x, width, WIDTH: tl.constexpr, PDL: tl.constexpr):
    """x[row] = table[token[row]]. Reads a row of the table and writes a row of x.

    It is not put in place early, so that all kernels after it find tokens and positions as the last step left them.
    """
    follow(PDL)
    row = tl.program_id(0)
    column = tl.arange(0, WIDTH)
    value = tl.load(table + tl.load(token + row) * width + column, mask=column < width, other=0.0)
    tl.store(x + row * width + column, value.to(tl.float32), mask=column < width)


@triton.jit
def settle(
    x,  # [rows, width] float32
    parts,  # [PARTS, room, width] float32
    norm,  # [width]
    y,  # [rows, width]
    room,
    width,
    share,  # 1 / width
    eps,
    PARTS: tl.constexpr,
    WIDTH: tl.constexpr,
    PDL: tl.constexpr,
):
    """x += Σ parts; y = norm(x) of one row. Reads x and the parts, writes x and y."""
    row = tl.program_id(0)
    column = tl.arange(0, WIDTH)
    inside = column < width
    weight = tl.load(norm + column, mask=inside, other=0.0).to(tl.float32)
    follow(PDL)
    value = tl.load(x + row * width + column, mask=inside, other=0.0)
    for part in tl.static_range(PARTS):
        value += tl.load(parts + (part * room + row) * width + column, mask=inside, other=0.0)
    if PARTS > 0:
        tl.store(x + row * width + column, value, mask=inside)
    scale = norm_scale(squares(value, 0), share, eps)
    tl.store(y + row * width + column, (value * scale * weight).to(y.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["most", "count"])
def project(
    y_tiles,  # of y [rows, width]: M by K
    weight_tiles,  # of the weight: HALF by K
    weight,  # [(heads + 2 kv) · size, width]
    bias,
    q_norm,
    k_norm,
    cos,  # [positions, size / 2] float32
    sin,
    position,  # [rows] int64
    pages,  # [rows, most] int32
    pool,  # [2, count, kv, PAGE, size]
    q,  # [rows, heads · size]
    width,
    most,
    count,
    heads,
    kv,
    eps,
    HALF: tl.constexpr,
    PAGE: tl.constexpr,
    BIAS: tl.constexpr,
    HEAD_NORM: tl.constexpr,
    PRECISION: tl.constexpr,
    M: tl.constexpr,
    K: tl.constexpr,
    LINES: tl.constexpr,
    PDL: tl.constexpr,
):
    """Queries, keys and values of M rows and one head, in the two halves that the rotary embedding rotates.

    Moves the weight once, y, and a head of every row out: to q or to the row's page.
    """
    row = tl.program_id(0) * M + tl.arange(0, M)
    head = tl.program_id(1)
    half = tl.arange(0, HALF)
    size = 2 * HALF
    kind = q.dtype.element_ty
    whole = (heads + 2 * kv) * size
    first, second = head * size + half, head * size + HALF + half
    if PDL and LINES > 0:  # noqa: SIM102 (known when compiling)
        if tl.program_id(0) == 0:
            _fetch_columns(weight, head * size + tl.arange(0, 2 * HALF), 0, width, whole, width, LINES)
    at = tl.load(position + row)
    c = tl.load(cos + at[:, None] * HALF + half[None, :])
    s = tl.load(sin + at[:, None] * HALF + half[None, :])
    page = tl.load(pages + row * most + at // PAGE).to(tl.int64)
    follow(PDL)
    a = tl.zeros((M, HALF), tl.float32)
    b = tl.zeros((M, HALF), tl.float32)
    for start in range(0, width, K):
        part = y_tiles.load([tl.program_id(0) * M, start])
        a = tl.dot(part, weight_tiles.load([head * size, start]).T, a, input_precision=PRECISION)
        b = tl.dot(part, weight_tiles.load([head * size + HALF, start]).T, b, input_precision=PRECISION)
    if BIAS:
        a += tl.load(bias + first).to(tl.float32)[None, :]
        b += tl.load(bias + second).to(tl.float32)[None, :]
    a, b = a.to(kind).to(tl.float32), b.to(kind).to(tl.float32)
    if head < heads + kv:
        if HEAD_NORM:
            if head < heads:
                wa, wb = tl.load(q_norm + half).to(tl.float32), tl.load(q_norm + HALF + half).to(tl.float32)
            else:
                wa, wb = tl.load(k_norm + half).to(tl.float32), tl.load(k_norm + HALF + half).to(tl.float32)
            own = norm_scale(squares(a, 1) + squares(b, 1), 1.0 / size, eps)
            a = (a * own[:, None] * wa[None, :]).to(kind).to(tl.float32)
            b = (b * own[:, None] * wb[None, :]).to(kind).to(tl.float32)
        a, b = turned(a, b, c, s)
    if head < heads:
        place = q + row[:, None].to(tl.int64) * (heads * size) + head * size + half[None, :]
    else:
        other = head - heads
        page += other // kv * count
        place = pool + ((page * kv + other % kv) * PAGE + at % PAGE)[:, None] * size + half[None, :]
    tl.store(place, a.to(kind))
    tl.store(place + HALF, b.to(kind))


@triton.jit
def product(
    y_tiles,  # of y [rows, inner]: M by K
    weight_tiles,  # of the weight: N by K
    weight,  # [width, inner]
    bias,
    parts,  # [cdiv(inner, cut), room, width] float32
    room,
    width,
    inner,
    cut,
    BIAS: tl.constexpr,
    PRECISION: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    LINES: tl.constexpr,
    PDL: tl.constexpr,
):
    """y · weightᵀ over `cut` inner indices, for M rows and N columns.

    Moves the weight once, y, and a part out.
    """
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    begin = tl.program_id(2) * cut
    if PDL and LINES > 0:  # noqa: SIM102 (known when compiling)
        if tl.program_id(0) == 0:
            _fetch_columns(weight, column, begin, cut, width, inner, LINES)
    follow(PDL)
    total = tl.zeros((M, N), tl.float32)
    for start in range(begin, tl.minimum(begin + cut, inner), K):
        other = weight_tiles.load([tl.program_id(1) * N, start]).T
        total = tl.dot(y_tiles.load([tl.program_id(0) * M, start]), other, total, input_precision=PRECISION)
    inside = column < width
    if BIAS:  # noqa: SIM102 (known when compiling)
        if begin == 0:
            total += tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    place = parts + (tl.program_id(2) * room + row[:, None]) * width + column[None, :]
    tl.store(place, total, mask=inside[None, :])


@triton.jit
def gate(
    y_tiles,  # of y [rows, width]: M by K
    gate_tiles,  # of the weight's first half: N by K
    up_tiles,  # of its second half
    weight,  # [2 · inner, width]: gate, then up
    bias,
    out,  # [rows, inner]
    width,
    inner,
    BIAS: tl.constexpr,
    PRECISION: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    LINES: tl.constexpr,
    PDL: tl.constexpr,
):
    """silu(gate) · up for M rows and N columns. Reads the weight once and y, writes the result."""
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    if PDL and LINES > 0:  # noqa: SIM102 (known when compiling)
        if tl.program_id(0) == 0:
            _fetch_columns(weight, column, 0, width, inner, width, LINES)
            _fetch_columns(weight, inner + column, 0, width, 2 * inner, width, LINES)
    follow(PDL)
    kind = out.dtype.element_ty
    gated = tl.zeros((M, N), tl.float32)
    up = tl.zeros((M, N), tl.float32)
    for start in range(0, width, K):
        part = y_tiles.load([tl.program_id(0) * M, start])
        gated = tl.dot(part, gate_tiles.load([tl.program_id(1) * N, start]).T, gated, input_precision=PRECISION)
        up = tl.dot(part, up_tiles.load([tl.program_id(1) * N, start]).T, up, input_precision=PRECISION)
    inside = column < inner
    if BIAS:
        gated += tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)[None, :]
        up += tl.load(bias + inner + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    gated, up = gated.to(kind).to(tl.float32), up.to(kind).to(tl.float32)
    value = gated_by(gated, up)
    tl.store(out + row[:, None] * inner + column[None, :], value.to(kind), mask=inside[None, :])


@triton.jit(do_not_specialize=["tiles"])
def score(
    y_tiles,  # of y [rows, width]: M by K
    weight_tiles,  # of the weight: N by K
    weight,  # [vocabulary, width]
    bias,
    temperature,  # [rows] float32
    logits,  # [rows, vocabulary] float32
    peak,  # [rows, tiles] float32: of z = logit / temperature
    mass,  # [rows, tiles] float32: Σ e^(z − peak)
    moment,  # [rows, tiles] float32: Σ (z − peak) e^(z − peak)
    width,
    vocabulary,
    tiles,
    BIAS: tl.constexpr,
    EVEN: tl.constexpr,
    PRECISION: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    LINES: tl.constexpr,
    PDL: tl.constexpr,
):
    """Logits of M rows and N tokens, and the statistics that a draw needs. Reads the head once, writes the logits."""
    row = tl.program_id(0) * M + tl.arange(0, M)
    token = tl.program_id(1) * N + tl.arange(0, N)
    if PDL and LINES > 0:  # noqa: SIM102 (known when compiling)
        if tl.program_id(0) == 0:
            _fetch_columns(weight, token, 0, width, vocabulary, width, LINES)
    warmth = tl.load(temperature + row)[:, None]
    follow(PDL)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, width, K):
        other = weight_tiles.load([tl.program_id(1) * N, start]).T
        total = tl.dot(y_tiles.load([tl.program_id(0) * M, start]), other, total, input_precision=PRECISION)
    place = logits + row[:, None].to(tl.int64) * vocabulary + token[None, :]
    if EVEN:
        if BIAS:
            total += tl.load(bias + token).to(tl.float32)[None, :]
        tl.store(place, total)
    else:
        inside = token < vocabulary
        if BIAS:
            total += tl.load(bias + token, mask=inside, other=0.0).to(tl.float32)[None, :]
        tl.store(place, total, mask=inside[None, :])
        total = tl.where(inside[None, :], total, -1e30)
    most = tl.max(total, 1)
    gap = (total - most[:, None]) / warmth
    share = tl.exp(gap)
    at = row * tiles + tl.program_id(1)
    # Rounded in the same way as every `z` that is compared with it: the peak of a tile equals one of its tokens.
    tl.store(peak + at, tl.div_rn(most, tl.load(temperature + row)))
    tl.store(mass + at, tl.sum(share, 1))
    tl.store(moment + at, tl.sum(gap * share, 1))
