"""The in-process sampler: continuous batching over the trainer's own weights.

Each row of the running batch writes one completion. When a completion ends, its row goes to the next one in the queue,
or the rows close up, so that a decode step costs no more than its running rows. The completions of a request share the
KV cache of its context, and the next turn of an episode continues the cached text of the last one. A few completions
that could join wait a step or two for others. Every completion draws from its own random stream, so that what it writes
does not depend on the rest of the batch.

On a GPU a burst of several tokens is drawn before the host looks at them, and the next burst runs meanwhile. Waiting
rows begin on the device as soon as others end, before the host knows of it.
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
from podium.protocols.sampling import ALLOWED, Completion, Generate
from podium.sampler.capture import readable
from podium.sampler.engine_choice import choose_engine
from podium.sampler.jobs import Burst, Job, PendingRequest
from podium.sampler.queue import Queue
from podium.sampler.row_engine import Prompt, RowEngine, RowsDoNotFit, Stats
from podium.sampler.row_state import RowState
from podium.sampler.rows import Rows
from podium.sampler.stops import Stops

__all__ = ["LocalSampler"]

Ids = tuple[int, ...]


class LocalSampler:
    """Samples from a policy in this process. `stats` counts what it did.

    `slots` is the largest number of completions that advance at once (by default 256 on a CPU and 1024 on a GPU, where
    a step hardly costs more with more rows); `memory` bounds the bytes of their KV cache. `paged=False` turns the GPU
    kernels off; `paged=True` runs the same algorithm anywhere, in plain torch where there is no GPU.
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
        self.state: RowState
        self.engine, self.state = choose_engine(policy, self.stats, self._stops, slots, memory, paged)
        self._queue, self._rows = Queue(), Rows()
        self._bursts: deque[Burst] = deque()
        self._pace = math.inf  # rows that end per step, by the last burst looked at
        self._ready: dict[int, list[Completion]] = {}  # by ticket
        self._tickets = 0  # tickets given out so far
        self._version = policy.version - 1

    @property
    def context_length(self) -> int:
        """The most tokens that a context and its completion can have together."""
        return self.policy.context_length

    # -- the sampler's protocol ------------------------------------------------------------------------------------

    def submit(self, request: Generate) -> int:
        """Add work; returns its ticket."""
        pending = PendingRequest.of(self._tickets + 1, request, self.policy)
        self._tickets += 1
        if request.n < 1:
            self._ready[pending.number] = []
        else:
            self._queue.add(pending)
        return pending.number

    def poll(self) -> list[tuple[int, list[Completion]]]:
        """Run until at least one ticket is complete; returns all that are. Empty when there is nothing to do."""
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
        """Drop the prefix cache, so that what comes next costs the same whatever was sampled before."""
        self._version = self.policy.version - 1

    def text(self, ids: Sequence[int]) -> str:
        """Token ids decoded to text, without special tokens."""
        return self.policy.text(ids)

    def encode(self, messages: Sequence[Mapping[str, Any]]) -> Ids:
        """A conversation as token ids by the chat template, up to where the model's turn begins."""
        return self.policy.encode(messages)

    # -- the loop --------------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def _work(self) -> None:
        """Run until a ticket is complete or nothing is left to do."""
        if self._version != self.policy.version:
            self._version = self.policy.version
            self.engine.renew()
            self._queue.forget()
        before = len(self._ready)
        while len(self._ready) == before and (self._queue or self._rows.running):
            if self._queue and self.engine.open and self._queue.enough(self._rows.running, self.engine.patience):
                self._join()
            self.state.close_up(self._rows)
            if self._rows:
                self._advance()

    # -- admission -------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        """Give free rows to queued completions."""
        running = self._rows.running
        chosen, contexts = self._queue.next(self._rows, self.state.max_rows, self.engine)
        if not chosen:
            return
        rows = self._rows.free(len(chosen))
        resumed = self._resume(rows, [pending for pending, _ in chosen])
        fresh = [pending for (pending, _), row in zip(chosen, rows, strict=True) if row not in resumed]
        if fresh:
            prompt, written = self._rows.longest(fresh=True)
            longest = max(prompt, *(len(p.text) for p in fresh)), max(written, *(p.limit for p in fresh))
            try:
                self.engine.reserve(max(rows) + 1, contexts, *longest, busy=running + len(resumed) > 0)
            except RowsDoNotFit:
                if running + len(chosen) == 1:
                    raise
                return  # fewer are chosen next time
        self.state.reserve(self.engine.bucket(max(rows) + 1), max(pending.limit for pending, _ in chosen))
        jobs = []
        for (pending, copy), row in zip(chosen, rows, strict=True):
            slot, waits = self.state.free.pop(), self._rows.running >= self.slots
            jobs.append(Job(pending, copy, row, slot, self._rows.clock, self._version, row in resumed, waits))
            self._rows.join(jobs[-1])
        self._queue.take(chosen)
        self._begin(jobs)

    def _resume(self, rows: Sequence[int], requests: Sequence[PendingRequest]) -> set[int]:
        """The rows that continue cached texts in place: all completions of a request, or none, which share a prompt."""
        joining = Counter(pending.number for pending in requests)
        candidates = {
            row: pending
            for row, pending in zip(rows, requests, strict=True)
            if pending.prompt is None and joining[pending.number] == pending.request.n
        }
        texts, limits = [p.text for p in candidates.values()], [p.limit for p in candidates.values()]
        return set(self.engine.resume(list(candidates), texts, limits))

    def _begin(self, jobs: list[Job]) -> None:
        """Put completions into their rows: the KV cache of their contexts, and their state."""
        fresh = [job for job in jobs if not job.resumed]
        if fresh:
            self._prepare(fresh)
            self.engine.admit([j.row for j in fresh], [j.pending.prompt for j in fresh if j.pending.prompt is not None])
        for job in jobs:
            if not job.pending.waiting:
                job.pending.prompt = None  # no completion needs it any more
        self.state.start([job.row_start(self.seed) for job in jobs])

    def _prepare(self, jobs: Sequence[Job]) -> None:
        """Encode the contexts of these completions, and in the same pass those of the next requests."""
        missing = list({job.pending.number: job.pending for job in jobs if job.pending.prompt is None}.values())
        if not missing:
            return
        now = {pending.text for pending in missing}
        missing += self._queue.ahead(missing, self.engine.prefill_ahead)
        prompts: dict[Ids, Prompt] = {}
        for texts in portions(dict.fromkeys(pending.text for pending in missing)):
            later = sum(text not in now for text in texts)
            prompts |= zip(texts, self.engine.prepare(texts, later), strict=True)
        for pending in missing:
            pending.prompt = prompts[pending.text]

    # -- decode steps -----------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Draw a burst of tokens in all rows, and look at the burst before it, or at this one if it is the only one."""
        rows = self._rows
        single = self.state.burst == 1
        if single:
            while self._bursts:
                self._finish(self._bursts.popleft())
        count = min(self._burst(), rows.left)
        if count > 0:
            rows.clock += count
            self.stats.steps += count
            length = min(rows.clock + rows.reach, sum(rows.longest()))
            report = self.state.advance(self.engine.bucket(self.state.width(rows)), length, rows.marks, count)
            self._bursts.append(Burst(count, list(rows.jobs), report))
        if self._bursts and (single or count <= 0 or len(self._bursts) > 1):
            self._finish(self._bursts.popleft())

    def _burst(self) -> int:
        """How many tokens to draw before the host looks.

        More while there is no need to look soon: where a row ends, its lane continues with a waiting row, if enough of
        them wait for two bursts. Rows are admitted between bursts, which takes time.
        """
        rows, least, most = self._rows, self.state.burst, self.state.max_burst
        if not self._bursts or rows.marks["stop"]:  # only the host can see a stop string
            return least
        waiting = (rows.running - self.slots) / (2 * self._pace)
        return max(least, int(min(waiting, most, 2 * self._bursts[-1].count, rows.soonest - rows.clock)))

    # -- ends ------------------------------------------------------------------------------------------------------

    def _finish(self, burst: Burst) -> None:
        """Complete those that ended in a burst."""
        ending = self._rows.ending(burst)
        self._pace = (len(ending) + 1) / burst.count  # none in a few steps does not mean never
        if not ending:
            return
        jobs, counts = zip(*ending, strict=True)
        names = {"ids", "logp"}.union(*(job.pending.request.capture for job in jobs)) - {ALLOWED}
        written = self.state.written(names, [job.slot for job in jobs], counts)
        rows = []
        for number, (job, count) in enumerate(ending):
            request, ids = job.pending.request, tuple(written["ids"][number].tolist())
            end = self._stops.end(request, job.pending.limit, ids, max(0, count - burst.count))
            if end is None:
                continue
            ids, stop = end
            logp = tuple(written["logp"][number][: len(ids)].tolist())
            kept = {
                name: readable(written[name][number][: len(ids)].tolist())
                for name in request.capture
                if name != ALLOWED
            }
            if ALLOWED in request.capture:
                kept[ALLOWED] = self.state.sets(job.slot, len(ids))
            rows.append(job.row)
            self._end(job, Completion(ids, logp, stop, kept))
        if rows:
            self.state.clear(rows)
            self.engine.leave(rows)

    def _end(self, job: Job, completion: Completion) -> None:
        pending = job.pending
        if pending.request.keep and job.version == self.policy.version:
            # The last token was drawn but has not gone through the model.
            self.engine.remember(job.row, (*pending.text, *completion.ids[:-1]))
        self.stats.sampled += len(completion.ids)
        self._rows.leave(job)
        self.state.free.append(job.slot)
        pending.done[job.copy] = completion
        if not pending.waiting and all(c is not None for c in pending.done):
            self._ready[pending.number] = [c for c in pending.done if c is not None]
