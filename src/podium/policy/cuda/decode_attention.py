"""Paged attention of one new token of every row, in Triton.

A row's page table names the pages that hold its text. Rows that continue the same prompt name the same pages for it, so
that the prompt's keys and values are stored once and come from the L2 cache for all rows but one.

A long row is split into chunks of a fixed number of keys, which different programs process; the last of them to finish
combines the parts, always in the same order. Where a row is split depends on the row alone, so that its numbers do not
depend on the batch. Rows differ in length, so all chunks are listed at the start of a step. As many as run at once are
listed in an order other than by length, since a multiprocessor takes several neighbours; then come the shortest, and
last the programs without keys, which return at once.
"""

# Triton reads the annotations of a kernel's parameters: no postponed evaluation here.
import triton
import triton.language as tl

from podium.policy.cuda.arithmetic import COLUMNS, LOWEST, joined, weighed
from podium.policy.cuda.decode_kernels import follow

__all__ = ["attend", "divide"]


@triton.jit(do_not_specialize=["rows", "chunks"])
def divide(
    position,  # [rows] int64: the position of the new token
    listed,  # [3, rows · chunks] int32: row, first key, keys of the row; these are 0 where there is no chunk
    order,  # [rows · chunks] int32: the place of the n-th longest chunk
    rows,
    chunks,
    ROWS: tl.constexpr,  # at least `rows`
    OWN: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Place the chunks of OWN rows in the list: whole ones are the longest, then the rest of each row, by length.

    It is not put in place early, nor is the kernel after it, so that all others find the list as it is written here.
    """
    row, own = tl.arange(0, ROWS), tl.program_id(0) * OWN + tl.arange(0, OWN)
    length = (tl.load(position + row, mask=row < rows, other=-1) + 1).to(tl.int32)
    its_length = (tl.load(position + own, mask=own < rows, other=-1) + 1).to(tl.int32)
    whole, rest, its_whole, its_rest = length // CHUNK, length % CHUNK, its_length // CHUNK, its_length % CHUNK
    wholes, earlier = tl.sum(whole, 0), row[None, :] < own[:, None]
    longer = (rest[None, :] > its_rest[:, None]) | (earlier & (rest[None, :] == its_rest[:, None]))
    first, tail = tl.sum(tl.where(earlier, whole[None, :], 0), 1), wholes + tl.sum(longer.to(tl.int32), 1)
    count, room = wholes + tl.sum((rest > 0).to(tl.int32), 0), rows * chunks
    for chunk in range(0, chunks):
        there = chunk * CHUNK < its_length
        place = tl.load(order + tl.where(chunk == its_whole, tail, first + chunk), mask=there, other=0)
        tl.store(listed + place, own, mask=there)
        tl.store(listed + room + place, chunk * CHUNK, mask=there)
        tl.store(listed + 2 * room + place, its_length, mask=there)
        # Every row clears as many unused places of the list as it could fill.
        number = own * chunks + chunk
        empty = (number >= count) & (own < rows)
        tl.store(listed + 2 * room + tl.load(order + number, mask=empty, other=0), 0, mask=empty)


@triton.jit(do_not_specialize=["most", "count", "chunks"])
def attend(
    q,  # [rows, heads · size]
    pool,  # [2, count, kv, PAGE, size]
    pages,  # [rows, most] int32
    out,  # [rows, heads · size]
    part,  # [rows, kv, chunks, group, size] float32: Σ p v of a chunk
    part_peak,  # [rows, kv, chunks, LANES] float32
    part_mass,  # [rows, kv, chunks, LANES] float32: Σ p
    arrived,  # [rows, kv] int32: zeros
    listed,  # [3, rows · chunks] int32: row, first key, keys of the row
    scale,  # 1 / √size · log₂ e
    most,
    count,
    kv,
    group,  # heads of a key-value head
    chunks,
    LANES: tl.constexpr,  # at least `group`
    SIZE: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK: tl.constexpr,
    CHUNK: tl.constexpr,
    PRECISION: tl.constexpr,
    PDL: tl.constexpr,
):
    """The heads of one row that share a key-value head, over one chunk. Reads the chunk's keys and values once."""
    item, room = listed + tl.program_id(0) // kv, tl.num_programs(0) // kv
    own = tl.program_id(0) % kv
    length = tl.load(item + 2 * room)
    if length > 0:  # a program without keys need not wait
        row, begin = tl.load(item), tl.load(item + room)
        end = tl.minimum(begin + CHUNK, length)
        key, lane, d = tl.arange(0, BLOCK), tl.arange(0, LANES), tl.arange(0, SIZE)  # blocks begin with a page
        named = pages + row * most + key // PAGE
        page = tl.load(named + begin // PAGE, mask=begin + key < end, other=0)
        follow(PDL)
        heads = (row * kv + own) * group + lane
        real = (lane < group)[:, None]
        query = tl.load(q + heads[:, None] * SIZE + d[None, :], mask=real, other=0.0)
        peak = tl.full((LANES,), LOWEST, tl.float32)
        sums = tl.zeros((LANES, COLUMNS), tl.float32)
        total = tl.zeros((LANES, SIZE), tl.float32)
        in_page = key[:, None] % PAGE * SIZE + d[None, :]
        to_values = count.to(tl.int64) * kv * (PAGE * SIZE)
        for start in range(begin, end, BLOCK):
            source = pool + (page * kv + own).to(tl.int64)[:, None] * (PAGE * SIZE) + in_page
            # Load the next block's page numbers before this block's keys are needed.
            after = start + BLOCK
            page = tl.load(named + after // PAGE, mask=after + key < end, other=0)
            scores = tl.dot(query, tl.trans(tl.load(source)), input_precision=PRECISION)
            scores = tl.where((start + key < end)[None, :], scores, float("-inf"))
            v = tl.load(source + to_values)
            peak, sums, total = weighed(scores, v, peak, sums, total, scale, PRECISION)
        mass = tl.max(sums, 1)
        last = True
        if length > CHUNK:
            needed, first = tl.cdiv(length, CHUNK), (row * kv + own) * chunks
            chunk = first + begin // CHUNK
            inside = lane[:, None] * SIZE + d[None, :]
            tl.store(part + chunk.to(tl.int64) * (group * SIZE) + inside, total, mask=real)
            tl.store(part_peak + chunk * LANES + lane, peak)
            tl.store(part_mass + chunk * LANES + lane, mass)
            tl.debug_barrier()  # everything is written before the program signals that it has arrived
            last = tl.atomic_add(arrived + row * kv + own, 1, sem="acq_rel") == needed - 1
            if last:
                tl.store(arrived + row * kv + own, 0)
                peak = tl.full((LANES,), LOWEST, tl.float32)
                mass = tl.zeros((LANES,), tl.float32)
                total = tl.zeros((LANES, SIZE), tl.float32)
                for number in range(0, needed):
                    chunk = first + number
                    its_peak = tl.load(part_peak + chunk * LANES + lane, cache_modifier=".cg")
                    its_mass = tl.load(part_mass + chunk * LANES + lane, cache_modifier=".cg")
                    place = part + chunk.to(tl.int64) * (group * SIZE) + inside
                    its_total = tl.load(place, mask=real, other=0.0, cache_modifier=".cg")
                    peak, mass, total = joined(peak, mass, total, its_peak, its_mass, its_total, scale)
        if last:
            kind = q.dtype.element_ty
            tl.store(out + heads[:, None] * SIZE + d[None, :], (total / mass[:, None]).to(kind), mask=real)
