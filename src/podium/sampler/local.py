"""The in-process sampler: continuous batching over the trainer's own weights.

Rows of one running batch each write a completion. When one ends, its row goes to the next in the queue, or the rows
close up, so that a step costs what its rows cost. The completions of a request share the encoding of its context.
A next turn goes on where the last one was written, if that is still there; few that join wait a step or two for others.
Every completion draws from its own random stream, so that what it writes does not depend on the others.

On a GPU several tokens are drawn before the host looks at them, and the next ones are under way while it looks. What a
row writes after its end is not kept.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from podium.core.errors import PodiumError
from podium.policy.policy import Policy
from podium.sampler import streams
from podium.sampler.board import Board, Report, Seat
from podium.sampler.capture import capture, readable
from podium.sampler.engine import Engine, Prompt, Stats
from podium.sampler.paged import choose
from podium.sampler.request import Completion, Generate, Stop
from podium.sampler.stops import Stops

__all__ = ["LocalSampler"]

Ids = tuple[int, ...]
PORTION = 16384  # tokens of contexts that go through the model at once


@dataclass
class _Ticket:
    """A request and what has come of it."""

    number: int
    request: Generate
    text: Ids  # context and prefix
    limit: int  # tokens a completion may have
    done: list[Completion | None]
    prompt: Prompt | None = None
    started: int = 0  # completions that have a row or have had one


@dataclass(eq=False)
class _Job:
    """A completion under way."""

    ticket: _Ticket
    copy: int
    row: int  # −1 when it has ended
    slot: int  # where its tokens are written
    begun: int  # the clock when it joined
    version: int  # of the weights then
    marks: tuple[str, ...]  # what a step must do for its sake
    resumed: bool  # it goes on where its text was written so far


@dataclass(frozen=True)
class _Burst:
    """Tokens that were drawn, or are being drawn, and not looked at yet."""

    clock: int  # after them
    count: int  # of each row
    jobs: list[_Job | None]  # by row
    report: Report


class LocalSampler:
    """Samples from a policy in this process. `stats` counts what it did.

    `slots` is the largest number of completions under way at once (256 on a CPU, 1024 on a GPU, whose step hardly costs
    more with more rows); `memory` bounds the bytes of their keys and values. `paged=False` does without the kernels for
    GPUs; `paged=True` runs what they do anywhere, by plain torch where there is no GPU.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        slots: int | None = None,
        seed: int = 0,
        memory: int | None = None,
        paged: bool | None = None,
    ) -> None:
        if slots is None:
            slots = 256 if policy.device.type == "cpu" else 1024
        if slots < 1:
            raise PodiumError(f"slots = {slots} must be at least 1.")
        self.policy, self.slots, self.seed = policy, slots, seed
        self.stats = Stats()
        self._stops = Stops(policy)
        self.engine: Engine
        self.board: Board
        self.engine, self.board = choose(policy, self.stats, self._stops, memory, paged)
        self._queue: deque[_Ticket] = deque()
        self._ready: dict[int, list[Completion]] = {}
        self._jobs: list[_Job | None] = []  # by row; None: its completion has ended
        self._due: dict[int, list[_Job]] = {}  # by the clock at which they reach their limit
        self._marks: Counter[str] = Counter()
        self._tickets = self._clock = 0
        self._reach = 0  # the longest row has this many tokens more than the clock
        self._waited = 0  # steps since somebody could have joined
        self._version = policy.version - 1
        self._bursts: deque[_Burst] = deque()

    @property
    def context_length(self) -> int:
        """How many tokens a context and its answer can have."""
        return self.policy.context_length

    # -- the sampler's protocol ------------------------------------------------------------------------------------

    def submit(self, request: Generate) -> int:
        """Add work; returns its ticket."""
        text = (*request.context, *request.prefix)
        room = self.policy.context_length - len(text)
        if not text:
            raise PodiumError("A request has an empty context: there must be at least one token to continue.")
        if room < 1:
            raise PodiumError(
                f"A prompt of {len(text)} tokens leaves no room to answer in the context of "
                f"{self.policy.name or 'the model'}, {self.policy.context_length} tokens. "
                "Use shorter prompts or a model with a longer context."
            )
        for name in request.capture:
            capture(name)  # refuses unknown ones now
        self._tickets += 1
        limit = min(request.sampling.max_tokens, room)
        if request.n < 1:
            self._ready[self._tickets] = []
        else:
            self._queue.append(_Ticket(self._tickets, request, text, limit, [None] * request.n))
        return self._tickets

    def poll(self) -> list[tuple[int, list[Completion]]]:
        """Go on until at least one ticket is complete; returns what is. Empty when there is nothing to do."""
        if not self._ready:
            self._work()
        ready = sorted(self._ready.items())
        self._ready = {}
        return ready

    def generate(self, requests: Sequence[Generate]) -> list[list[Completion]]:
        """All completions of several requests at once."""
        tickets = [self.submit(r) for r in requests]
        while any(t not in self._ready for t in tickets):
            self._work()
        return [self._ready.pop(t) for t in tickets]

    def forget(self) -> None:
        """Drop what is held of earlier texts, so that what comes next costs the same whatever was sampled before."""
        self._version = self.policy.version - 1

    def text(self, ids: Sequence[int]) -> str:
        """What a person reads: token ids as text without special tokens."""
        return self.policy.text(ids)

    def encode(self, messages: Sequence[Mapping[str, Any]]) -> Ids:
        """A conversation as token ids that end where the model's turn begins."""
        return self.policy.encode(messages)

    # -- rows ------------------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def _work(self) -> None:
        """Go on until a ticket is complete or nothing is left to do."""
        if self._version != self.policy.version:
            self._version = self.policy.version
            self.engine.renew()
            for ticket in self._queue:
                ticket.prompt = None
        before = len(self._ready)
        while len(self._ready) == before and (self._queue or any(self._jobs)):
            if self._queue and self.engine.open and self._enough():
                self._join()
            self._close_up()
            if self._jobs:
                self._advance()

    def _enough(self) -> bool:
        """Whether those in the queue are worth a pass of their own: they are many, or have waited for some steps."""
        running = len(self._jobs) - self._jobs.count(None)
        waiting = sum(ticket.request.n - ticket.started for ticket in self._queue)
        if 2 * waiting < running and self._waited < self.engine.patience:
            self._waited += 1
            return False
        self._waited = 0
        return True

    def _join(self) -> None:
        """Give free rows to queued completions."""
        holes = [row for row, job in enumerate(self._jobs) if job is None]
        active = [job for job in self._jobs if job is not None]
        prompt = max((len(job.ticket.text) for job in active), default=0)
        written = max((job.ticket.limit for job in active), default=0)
        contexts = {job.ticket.text for job in active}
        chosen: list[tuple[_Ticket, int]] = []
        for ticket, copy in self._waiting():
            longest = max(prompt, len(ticket.text)), max(written, ticket.limit)
            count = len(active) + len(chosen) + 1
            if count > self.slots:
                break
            different = len(contexts) + (ticket.text not in contexts)
            if count > 1 and not self.engine.room(count, different, *longest):
                break
            prompt, written = longest
            contexts.add(ticket.text)
            chosen.append((ticket, copy))
        if not chosen:
            return
        rows = holes[: len(chosen)]
        rows += range(len(self._jobs), len(self._jobs) + len(chosen) - len(rows))
        resumed = self._resume(rows, [ticket for ticket, _ in chosen])
        fresh = [ticket for (ticket, _), row in zip(chosen, rows, strict=True) if row not in resumed]
        if fresh:
            tickets = [*fresh, *(job.ticket for job in active if not job.resumed)]
            longest = max(len(t.text) for t in tickets), max(t.limit for t in tickets)
            self.engine.reserve(max(rows) + 1, len(contexts), *longest, busy=len(active) + len(resumed) > 0)
        self.board.reserve(self.engine.bucket(max(rows) + 1), max(ticket.limit for ticket, _ in chosen))
        seated = zip(chosen, rows, strict=True)
        jobs = [self._job(ticket, copy, row, row in resumed) for (ticket, copy), row in seated]
        while self._queue and self._queue[0].started == self._queue[0].request.n:
            self._queue.popleft()
        self._begin(jobs)

    def _waiting(self) -> Iterator[tuple[_Ticket, int]]:
        for ticket in self._queue:
            for copy in range(ticket.started, ticket.request.n):
                yield ticket, copy

    def _resume(self, rows: Sequence[int], tickets: Sequence[_Ticket]) -> set[int]:
        """The rows that go on where their text was written so far: of a ticket all, or they share a prompt."""
        joining = Counter(ticket.number for ticket in tickets)
        able = {
            row: t
            for row, t in zip(rows, tickets, strict=True)
            if t.prompt is None and joining[t.number] == t.request.n
        }
        texts, limits = [t.text for t in able.values()], [t.limit for t in able.values()]
        return set(self.engine.resume(list(able), texts, limits))

    def _job(self, ticket: _Ticket, copy: int, row: int, resumed: bool) -> _Job:
        """A completion in a row."""
        s = ticket.request.sampling
        marks = [f"capture {name}" for name in ticket.request.capture]
        if s.temperature not in (0.0, 1.0):
            marks.append("temperature")
        if s.temperature == 0.0:
            marks.append("greedy")
        elif s.top_p < 1.0 or s.top_k > 0 or s.min_p > 0.0:
            marks.append("filter")
        if s.warmth is not None:
            marks.append("warmth")
        self._marks.update(marks)
        job = _Job(ticket, copy, row, self.board.free.pop(), self._clock, self._version, tuple(marks), resumed)
        ticket.started += 1
        self._due.setdefault(self._clock + ticket.limit, []).append(job)
        self._jobs.extend([None] * (row + 1 - len(self._jobs)))
        self._jobs[row] = job
        return job

    def _begin(self, jobs: list[_Job]) -> None:
        """Put completions into their rows: keys and values of their contexts, and their state."""
        fresh = [job for job in jobs if not job.resumed]
        if fresh:
            self._prepare(fresh)
            self.engine.admit([j.row for j in fresh], [j.ticket.prompt for j in fresh if j.ticket.prompt is not None])
        seats = []
        for job in jobs:
            t, r = job.ticket, job.ticket.request
            key = streams.key(self.seed, (*r.stream, r.first + job.copy))
            at = (t.text[-1], len(t.text) - 1, t.limit)
            seats.append(Seat(job.row, job.slot, *at, r.sampling, key, len(r.prefix)))
            if t.started == r.n:
                t.prompt = None  # nobody needs it any more
        self.board.seat(seats)
        self._measure()

    def _measure(self) -> None:
        """The length of the longest row, as a distance to the clock."""
        self._reach = max((len(j.ticket.text) - 1 - j.begun for j in self._jobs if j is not None), default=0)

    def _prepare(self, jobs: Sequence[_Job]) -> None:
        """Encode the contexts of these completions, and while at it of those that come next."""
        missing = {job.ticket.number: job.ticket for job in jobs if job.ticket.prompt is None}
        if not missing:
            return
        now = {t.text for t in missing.values()}
        tokens = sum(len(t.text) for t in missing.values())
        for ticket in self._queue:
            if ticket.prompt is None and ticket.number not in missing:
                tokens += len(ticket.text)
                if tokens > self.engine.ahead:
                    break
                missing[ticket.number] = ticket
        prompts: dict[Ids, Prompt] = {}
        for texts in _portions(dict.fromkeys(t.text for t in missing.values())):
            later = sum(text not in now for text in texts)
            prompts |= zip(texts, self.engine.prepare(texts, later), strict=True)
        for ticket in missing.values():
            ticket.prompt = prompts[ticket.text]

    def _close_up(self) -> None:
        """Move the last rows into the places of those that have ended, if a step would become smaller by it."""
        left = sum(job is not None for job in self._jobs)
        if left == len(self._jobs) or self.engine.bucket(left) == self.engine.bucket(len(self._jobs)):
            return
        target = [row for row in range(left) if self._jobs[row] is None]
        moved = [job for job in self._jobs[left:] if job is not None]
        source = [job.row for job in moved]
        self.engine.move(source, target, left)
        self.board.move(source, target, left, len(self._jobs))
        for job, row in zip(moved, target, strict=True):
            job.row, self._jobs[row] = row, job
        del self._jobs[left:]
        self._measure()

    # -- tokens of every row ---------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Draw tokens in all rows, and look at those that were drawn before, or at these if they are all there are."""
        ahead = self.board.ahead(self._marks)
        if ahead == 1:
            while self._bursts:
                self._look(self._bursts.popleft())
        left = max((job.begun + job.ticket.limit for job in self._jobs if job is not None), default=0) - self._clock
        count = min(ahead, left)
        if count > 0:
            self._clock += count
            self.stats.steps += count
            rows, length = self.engine.bucket(len(self._jobs)), self._clock + self._reach
            report = self.board.advance(rows, length, self._marks, count)
            self._bursts.append(_Burst(self._clock, count, list(self._jobs), report))
        if self._bursts and (ahead == 1 or count <= 0 or len(self._bursts) > 1):
            self._look(self._bursts.popleft())

    # -- ends ------------------------------------------------------------------------------------------------------

    def _look(self, burst: _Burst) -> None:
        """End those completions that came to an end in a burst."""
        found = {job: None for row in burst.report() if (job := burst.jobs[row]) is not None}
        for clock in range(burst.clock - burst.count + 1, burst.clock + 1):
            found |= dict.fromkeys(self._due.pop(clock, ()))
        jobs = [job for job in found if job.row >= 0]
        if not jobs:
            return
        count = max(min(burst.clock - job.begun, job.ticket.limit) for job in jobs)
        ended: list[tuple[_Job, Ids, Stop]] = []
        for job, written in zip(jobs, self.board.written("ids", [job.slot for job in jobs], count), strict=True):
            length = min(burst.clock - job.begun, job.ticket.limit)
            end = self._end_of(job, tuple(written[:length]), max(0, burst.clock - burst.count - job.begun))
            if end is not None:
                ended.append((job, *end))
        if not ended:
            return
        gone = [job for job, _, _ in ended]
        rows, slots = [job.row for job in gone], [job.slot for job in gone]
        logp = self.board.written("logp", slots, count)
        names = {name for job in gone for name in job.ticket.request.capture}
        captured = {name: self.board.written(name, slots, count) for name in names}
        for number, (job, ids, stop) in enumerate(ended):
            kept = {name: readable(captured[name][number][: len(ids)]) for name in job.ticket.request.capture}
            self._end(job, Completion(ids, tuple(logp[number][: len(ids)]), stop, kept))
        self.board.clear(rows)
        self.engine.leave(rows)
        self._measure()

    def _end_of(self, job: _Job, ids: Ids, seen: int) -> tuple[Ids, Stop] | None:
        """Where and why a completion ends, if it does, of which the first `seen` tokens go on."""
        stop = job.ticket.request.sampling.stop
        for n in range(seen + 1, len(ids) + 1):
            if n == job.ticket.limit or self._stops.may_end(stop, ids[n - 1]):
                why = self._why(job, ids[:n])
                if why is not None:
                    return ids[:n], why
        return None

    def _why(self, job: _Job, ids: Ids) -> Stop | None:
        request = job.ticket.request
        if ids[-1] in self.policy.end_ids:
            return Stop.end
        if request.sampling.stop and self._stops.met(request.sampling.stop, request.prefix, ids):
            return Stop.text
        if len(ids) < job.ticket.limit:
            return None
        return Stop.length if job.ticket.limit == request.sampling.max_tokens else Stop.context

    def _end(self, job: _Job, completion: Completion) -> None:
        ticket = job.ticket
        if ticket.request.keep and job.version == self.policy.version:
            # The last token has been drawn but not read.
            self.engine.remember(job.row, (*ticket.text, *completion.ids[:-1]))
        self.stats.sampled += len(completion.ids)
        self._jobs[job.row], job.row = None, -1
        self.board.free.append(job.slot)
        self._marks.subtract(job.marks)
        ticket.done[job.copy] = completion
        if ticket.started == ticket.request.n and all(c is not None for c in ticket.done):
            self._ready[ticket.number] = [c for c in ticket.done if c is not None]


def _portions(texts: Iterable[Ids]) -> Iterator[list[Ids]]:
    """Texts in order, about PORTION tokens at a time."""
    portion: list[Ids] = []
    for text in texts:
        if portion and sum(map(len, portion)) + len(text) > PORTION:
            yield portion
            portion = []
        portion.append(text)
    yield portion
