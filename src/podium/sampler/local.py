"""The in-process sampler: continuous batching over the trainer's own weights.

Rows of one running batch each write a completion. When one ends, its row goes to the next in the queue, or the rows
close up, so that a step costs what its rows cost. The completions of a request share the encoding of its context.
A next turn goes on where the last one was written, if that is still there; few that join wait a step or two for others.
Every completion draws from its own random stream, so that what it writes does not depend on the others.

On a GPU several tokens are drawn before the host looks at them, and the next ones are under way while it looks. Rows
that wait there begin when others end, before the host knows of it.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from podium.core.errors import PodiumError
from podium.policy.forward.pack import portions
from podium.policy.policy import Policy
from podium.protocols.sampling import Completion, Generate
from podium.sampler.capture import readable
from podium.sampler.jobs import Burst, Job, Ticket
from podium.sampler.paged import choose
from podium.sampler.queue import Queue
from podium.sampler.row_engine import NoRoom, Prompt, RowEngine, Stats
from podium.sampler.row_state import Board
from podium.sampler.rows import Rows
from podium.sampler.stops import Stops

__all__ = ["LocalSampler"]

Ids = tuple[int, ...]


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
        self.engine: RowEngine
        self.board: Board
        self.engine, self.board = choose(policy, self.stats, self._stops, slots, memory, paged)
        self._queue, self._rows = Queue(), Rows()
        self._bursts: deque[Burst] = deque()
        self._pace = math.inf  # rows that end in a step, by the burst that was last looked at
        self._ready: dict[int, list[Completion]] = {}  # by ticket
        self._tickets = 0  # so far
        self._version = policy.version - 1

    @property
    def context_length(self) -> int:
        """How many tokens a context and its answer can have."""
        return self.policy.context_length

    # -- the sampler's protocol ------------------------------------------------------------------------------------

    def submit(self, request: Generate) -> int:
        """Add work; returns its ticket."""
        ticket = Ticket.of(self._tickets + 1, request, self.policy)
        self._tickets += 1
        if request.n < 1:
            self._ready[ticket.number] = []
        else:
            self._queue.add(ticket)
        return ticket.number

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

    # -- the loop --------------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def _work(self) -> None:
        """Go on until a ticket is complete or nothing is left to do."""
        if self._version != self.policy.version:
            self._version = self.policy.version
            self.engine.renew()
            self._queue.forget()
        before = len(self._ready)
        while len(self._ready) == before and (self._queue or self._rows.running):
            if self._queue and self.engine.open and self._queue.enough(self._rows.running, self.engine.patience):
                self._join()
            self.board.close_up(self._rows)
            if self._rows:
                self._advance()

    # -- who joins -------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        """Give free rows to queued completions."""
        running = self._rows.running
        chosen, contexts = self._queue.next(self._rows, self.board.seats, self.engine)
        if not chosen:
            return
        rows = self._rows.free(len(chosen))
        resumed = self._resume(rows, [ticket for ticket, _ in chosen])
        fresh = [ticket for (ticket, _), row in zip(chosen, rows, strict=True) if row not in resumed]
        if fresh:
            prompt, written = self._rows.longest(fresh=True)
            longest = max(prompt, *(len(t.text) for t in fresh)), max(written, *(t.limit for t in fresh))
            try:
                self.engine.reserve(max(rows) + 1, contexts, *longest, busy=running + len(resumed) > 0)
            except NoRoom:
                if running + len(chosen) == 1:
                    raise
                return  # fewer are chosen next time
        self.board.reserve(self.engine.bucket(max(rows) + 1), max(ticket.limit for ticket, _ in chosen))
        jobs = []
        for (ticket, copy), row in zip(chosen, rows, strict=True):
            slot, waits = self.board.free.pop(), self._rows.running >= self.slots
            jobs.append(Job(ticket, copy, row, slot, self._rows.clock, self._version, row in resumed, waits))
            self._rows.join(jobs[-1])
        self._queue.take(chosen)
        self._begin(jobs)

    def _resume(self, rows: Sequence[int], tickets: Sequence[Ticket]) -> set[int]:
        """The rows that go on where their text was written so far: of a ticket all, or they share a prompt."""
        joining = Counter(ticket.number for ticket in tickets)
        able = {
            row: t
            for row, t in zip(rows, tickets, strict=True)
            if t.prompt is None and joining[t.number] == t.request.n
        }
        texts, limits = [t.text for t in able.values()], [t.limit for t in able.values()]
        return set(self.engine.resume(list(able), texts, limits))

    def _begin(self, jobs: list[Job]) -> None:
        """Put completions into their rows: keys and values of their contexts, and their state."""
        fresh = [job for job in jobs if not job.resumed]
        if fresh:
            self._prepare(fresh)
            self.engine.admit([j.row for j in fresh], [j.ticket.prompt for j in fresh if j.ticket.prompt is not None])
        for job in jobs:
            if not job.ticket.waiting:
                job.ticket.prompt = None  # nobody needs it any more
        self.board.seat([job.seat(self.seed) for job in jobs])

    def _prepare(self, jobs: Sequence[Job]) -> None:
        """Encode the contexts of these completions, and while at it of those that come next."""
        missing = list({job.ticket.number: job.ticket for job in jobs if job.ticket.prompt is None}.values())
        if not missing:
            return
        now = {t.text for t in missing}
        missing += self._queue.ahead(missing, self.engine.ahead)
        prompts: dict[Ids, Prompt] = {}
        for texts in portions(dict.fromkeys(t.text for t in missing)):
            later = sum(text not in now for text in texts)
            prompts |= zip(texts, self.engine.prepare(texts, later), strict=True)
        for ticket in missing:
            ticket.prompt = prompts[ticket.text]

    # -- tokens of every row ---------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Draw tokens in all rows, and look at those that were drawn before, or at these if they are all there are."""
        rows = self._rows
        ahead = self.board.ahead
        if ahead == 1:
            while self._bursts:
                self._look(self._bursts.popleft())
        count = min(self._burst(), rows.left)
        if count > 0:
            rows.clock += count
            self.stats.steps += count
            length = min(rows.clock + rows.reach, sum(rows.longest()))
            report = self.board.advance(self.engine.bucket(self.board.width(rows)), length, rows.marks, count)
            self._bursts.append(Burst(count, list(rows.jobs), report))
        if self._bursts and (ahead == 1 or count <= 0 or len(self._bursts) > 1):
            self._look(self._bursts.popleft())

    def _burst(self) -> int:
        """How many tokens to draw before the host looks.

        More while it is in no hurry: where a row ends its lane goes on with one that waits, if enough of them wait for
        two bursts. Whoever joins is let in between bursts, which takes its time.
        """
        rows, least, most = self._rows, self.board.ahead, self.board.far
        if not self._bursts or rows.marks["stop"]:  # only the host sees where a text ends
            return least
        enough = (rows.running - self.slots) / (2 * self._pace)
        return max(least, int(min(enough, most, 2 * self._bursts[-1].count, rows.soonest - rows.clock)))

    # -- ends ------------------------------------------------------------------------------------------------------

    def _look(self, burst: Burst) -> None:
        """End those completions that came to an end in a burst."""
        found = self._rows.ending(burst)
        self._pace = (len(found) + 1) / burst.count  # none in a few steps does not mean never
        if not found:
            return
        jobs, counts = zip(*found, strict=True)
        names = {"ids", "logp"}.union(*(job.ticket.request.capture for job in jobs))
        written = self.board.written(names, [job.slot for job in jobs], counts)
        rows = []
        for number, (job, count) in enumerate(found):
            request, ids = job.ticket.request, tuple(written["ids"][number].tolist())
            end = self._stops.end(request, job.ticket.limit, ids, max(0, count - burst.count))
            if end is None:
                continue
            ids, stop = end
            logp = tuple(written["logp"][number][: len(ids)].tolist())
            kept = {name: readable(written[name][number][: len(ids)].tolist()) for name in request.capture}
            rows.append(job.row)
            self._end(job, Completion(ids, logp, stop, kept))
        if rows:
            self.board.clear(rows)
            self.engine.leave(rows)

    def _end(self, job: Job, completion: Completion) -> None:
        ticket = job.ticket
        if ticket.request.keep and job.version == self.policy.version:
            # The last token has been drawn but not read.
            self.engine.remember(job.row, (*ticket.text, *completion.ids[:-1]))
        self.stats.sampled += len(completion.ids)
        self._rows.leave(job)
        self.board.free.append(job.slot)
        ticket.done[job.copy] = completion
        if not ticket.waiting and all(c is not None for c in ticket.done):
            self._ready[ticket.number] = [c for c in ticket.done if c is not None]
