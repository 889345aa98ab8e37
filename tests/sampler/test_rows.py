"""Which completion is in which row, and which ones wait for one."""

from __future__ import annotations

import random

from podium.sampler import Generate, Sampling
from podium.sampler.jobs import Burst, Job, PendingRequest
from podium.sampler.queue import Queue
from podium.sampler.rows import Rows


def pending(number: int, n: int = 1, length: int = 3, **sampling: float) -> PendingRequest:
    request = Generate(tuple(range(5, 5 + length)), n=n, sampling=Sampling(**{"max_tokens": 4, **sampling}))  # type: ignore[arg-type]
    return PendingRequest(number, request, request.context, request.sampling.max_tokens, [None] * n)


def filled(rows: Rows, *requests: PendingRequest) -> list[Job]:
    jobs = [
        Job(t, 0, row, row + 1, rows.clock, 0, False) for t, row in zip(requests, rows.free(len(requests)), strict=True)
    ]
    for job in jobs:
        rows.join(job)
    return jobs


def test_free_rows_are_filled_before_new_ones() -> None:
    rows = Rows()
    jobs = filled(rows, *(pending(i) for i in range(4)))
    rows.leave(jobs[1])
    assert rows.free(3) == [1, 4, 5]
    assert rows.running == 3
    assert len(rows) == 4


def test_the_last_rows_close_up() -> None:
    rows = Rows()
    jobs = filled(rows, *(pending(i) for i in range(5)))
    rows.leave(jobs[0])
    rows.leave(jobs[3])
    assert rows.close_up(3) == ([4], [0])
    assert rows.jobs == [jobs[4], jobs[1], jobs[2]]
    assert [job.row for job in rows.active] == [0, 1, 2]


def test_what_is_known_of_all_rows_is_what_each_of_them_says() -> None:
    rows, chance = Rows(), random.Random(0)
    for number in range(200):
        if chance.random() < 0.6:
            new = pending(number, length=chance.randrange(1, 9), max_tokens=chance.randrange(1, 9))
            rows.join(Job(new, 0, rows.free(1)[0], 1, rows.clock, 0, chance.random() < 0.3))
        elif rows.active:
            rows.leave(chance.choice(rows.active))
        if chance.random() < 0.2:
            rows.close_up(rows.running)
        rows.clock += 1
        jobs = rows.active
        assert rows.running == len(jobs)
        if jobs:
            assert rows.left == max(job.begun + job.pending.limit for job in jobs) - rows.clock
            assert rows.reach == max(len(job.pending.text) - 1 - job.begun for job in jobs)
            assert set(rows.texts) == {job.pending.text for job in jobs}
        for fresh in (False, True):
            known = [job.pending for job in jobs if not (fresh and job.resumed)]
            longest = max((len(t.text) for t in known), default=0), max((t.limit for t in known), default=0)
            assert rows.longest(fresh) == longest


def test_a_step_does_what_some_row_wants_while_it_is_there() -> None:
    rows = Rows()
    _, warm = filled(rows, pending(0), pending(1, temperature=0.5, top_k=3))
    assert +rows.marks == {"temperature": 1, "filter": 1}
    rows.leave(warm)
    assert not +rows.marks


def test_completions_that_may_have_ended_are_looked_at_unless_they_were_known_to_have() -> None:
    rows = Rows()
    short, told, long = filled(rows, pending(0, max_tokens=2), pending(1), pending(2))
    before = list(rows.jobs)
    rows.clock = 2
    assert rows.ending(Burst(2, before, lambda: {1: 2, 0: 0})) == [(told, 2), (short, 2)]
    rows.leave(short)
    rows.leave(told)
    rows.clock = 4
    assert rows.left == 0
    assert rows.ending(Burst(2, before, lambda: {0: 0, 2: 1})) == [(long, 3)]


def test_nobody_knows_when_one_that_waits_will_have_ended() -> None:
    rows = Rows()
    (first,) = filled(rows, pending(0))
    rows.join(Job(pending(1), 0, 1, 2, rows.clock, 0, False, waits=True))
    assert rows.left > 1 << 32
    assert rows.reach == 2
    rows.leave(first)
    rows.leave(rows.active[0])
    assert rows.left == 0


def test_few_that_wait_have_patience_for_more() -> None:
    queue = Queue()
    queue.add(pending(1, n=2))
    assert [queue.enough(running=8, patience=2) for _ in range(4)] == [False, False, True, False]
    queue.add(pending(2, n=2))
    assert queue.enough(running=8, patience=2)


def test_contexts_are_encoded_ahead_while_they_are_short() -> None:
    queue, now = Queue(), pending(1, length=10)
    later = [pending(i, length=10) for i in range(2, 6)]
    for one in (now, *later):
        queue.add(one)
    assert queue.ahead([now], 35) == later[:2]
    assert queue.ahead([now], 15) == []
