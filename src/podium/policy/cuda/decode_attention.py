"""Attention of one new token of every row over the pages of its keys and values, in Triton.

A row's page table names the pages that hold its text. Rows that continue the same prompt name the same pages for it, so
that the prompt's keys and values are stored once and come from the L2 cache for all rows but one.

A long row is cut into chunks of a fixed number of keys, which different programs work on; the last of them to end adds
up the parts, always in the same order. Where the cuts lie depends on the row alone, so that its numbers do not depend
on the batch.
"""

# Triton reads the annotations of a kernel's parameters: no postponed evaluation here.
import triton
import triton.language as tl

from podium.policy.cuda.arithmetic import COLUMNS, LOWEST, joined, weighed
from podium.policy.cuda.decode_kernels import follow

__all__ = ["attend"]


@triton.jit(do_not_specialize=["most", "count"])
def attend(
    q,  # [rows, heads · size]
    pool,  # [2, count, kv, PAGE, size]
    pages,  # [rows, most] int32
    position,  # [rows] int64: of the new token
    out,  # [rows, heads · size]
    part,  # [rows, kv, chunks, group, size] float32: Σ p v of a chunk
    part_peak,  # [rows, kv, chunks, LANES] float32
    part_mass,  # [rows, kv, chunks, LANES] float32: Σ p
    arrived,  # [rows, kv] int32: zeros
    scale,  # 1 / √size · log₂ e
    most,
    count,
    kv,
    group,  # heads of a key-value head
    LANES: tl.constexpr,  # at least `group`
    SIZE: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK: tl.constexpr,
    CHUNK: tl.constexpr,
    PRECISION: tl.constexpr,
    PDL: tl.constexpr,
):
    """The heads of one row that share a key-value head, over one chunk. Moves the chunk's keys and values once."""
    row, own, chunk = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    begin = chunk * CHUNK
    length = (tl.load(position + row) + 1).to(tl.int32)
    if begin < length:  # who has nothing to do waits for nobody
        follow(PDL)
        end = tl.minimum(begin + CHUNK, length)
        lane, d = tl.arange(0, LANES), tl.arange(0, SIZE)
        kind = q.dtype.element_ty
        heads = row * (kv * group) + own * group + lane
        real = (lane < group)[:, None]
        query = tl.load(q + heads[:, None] * SIZE + d[None, :], mask=real, other=0.0)
        peak = tl.full((LANES,), LOWEST, tl.float32)
        sums = tl.zeros((LANES, COLUMNS), tl.float32)
        total = tl.zeros((LANES, SIZE), tl.float32)
        values = pool + count.to(tl.int64) * kv * PAGE * SIZE
        for start in range(begin, end, BLOCK):
            key = start + tl.arange(0, BLOCK)
            page = tl.load(pages + row * most + key // PAGE, mask=key < end, other=0).to(tl.int64)
            at = ((page * kv + own) * PAGE + key % PAGE) * SIZE
            scores = tl.dot(query, tl.load(pool + at[None, :] + d[:, None]), input_precision=PRECISION)
            scores = tl.where((key < end)[None, :], scores, float("-inf"))
            v = tl.load(values + at[:, None] + d[None, :])
            peak, sums, total = weighed(scores, v, peak, sums, total, scale, PRECISION)
        mass = tl.max(sums, 1)
        last = True
        if length > CHUNK:
            chunks = tl.cdiv(length, CHUNK)
            first = (row * kv + own) * tl.num_programs(2)
            inside = lane[:, None] * SIZE + d[None, :]
            tl.store(part + (first + chunk).to(tl.int64) * (group * SIZE) + inside, total, mask=real)
            tl.store(part_peak + (first + chunk) * LANES + lane, peak)
            tl.store(part_mass + (first + chunk) * LANES + lane, mass)
            tl.debug_barrier()  # all of this program's numbers are written before it says so
            last = tl.atomic_add(arrived + row * kv + own, 1, sem="acq_rel") == chunks - 1
            if last:
                tl.store(arrived + row * kv + own, 0)
                peak = tl.full((LANES,), LOWEST, tl.float32)
                mass = tl.zeros((LANES,), tl.float32)
                total = tl.zeros((LANES, SIZE), tl.float32)
                for other in range(0, chunks):
                    its_peak = tl.load(part_peak + (first + other) * LANES + lane, cache_modifier=".cg")
                    its_mass = tl.load(part_mass + (first + other) * LANES + lane, cache_modifier=".cg")
                    place = part + (first + other).to(tl.int64) * (group * SIZE) + inside
                    its_total = tl.load(place, mask=real, other=0.0, cache_modifier=".cg")
                    peak, mass, total = joined(peak, mass, total, its_peak, its_mass, its_total, scale)
        if last:
            tl.store(out + heads[:, None] * SIZE + d[None, :], (total / mass[:, None]).to(kind), mask=real)
