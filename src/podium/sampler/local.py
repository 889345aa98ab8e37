"""The in-process sampler: continuous batching over the trainer's own weights.

Rows of one running batch each write a completion. When one ends, its row goes to the next in the queue, or the rows
close up, so that a step costs what its rows cost. The completions of a request share the encoding of its context.
Every completion draws from its own random stream, so that what it writes does not depend on the others.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from podium.core.errors import PodiumError
from podium.policy.policy import Policy
from podium.sampler import streams
from podium.sampler.capture import Capture, capture, readable
from podium.sampler.draw import Drawn, Filters, draw
from podium.sampler.engine import Engine, Prompt, Slots, Stats, Waves
from podium.sampler.request import Completion, Generate, Stop
from podium.sampler.stops import Stops

__all__ = ["LocalSampler"]

Ids = tuple[int, ...]
AHEAD = 4096  # tokens of contexts that are encoded together with those that are waited for
PORTION = 16384  # tokens of contexts that go through the model at once
TOKEN, POSITION, FLAT, ALIVE, STOPS, TOP_K = range(6)  # of a row's integers
TEMPERATURE, TOP_P, MIN_P, WARMTH = range(4)  # and of its other numbers, of which the last are those of `Warmth`
STEADY = (0.0, 0.0, 0.0, 0.0)  # a temperature that does not follow the entropy
NUMBERS = WARMTH + len(STEADY)


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


class LocalSampler:
    """Samples from a policy in this process. `stats` counts what it did.

    `slots` is the largest number of completions under way at once (256 on a CPU, 1024 on a GPU, whose step hardly costs
    more with more rows); `memory` bounds the bytes of their keys and values.
    """

    def __init__(self, policy: Policy, *, slots: int | None = None, seed: int = 0, memory: int | None = None) -> None:
        if slots is None:
            slots = 256 if policy.device.type == "cpu" else 1024
        if slots < 1:
            raise PodiumError(f"slots = {slots} must be at least 1.")
        self.policy, self.slots, self.seed = policy, slots, seed
        self.stats = Stats()
        self.engine: Engine = (
            Slots(policy.decoder, self.stats, memory) if policy.decoder is not None else Waves(policy, self.stats)
        )
        self._stops = Stops(policy)
        self._queue: deque[_Ticket] = deque()
        self._ready: dict[int, list[Completion]] = {}
        self._jobs: list[_Job | None] = []  # by row; None: its completion has ended
        self._due: dict[int, list[_Job]] = {}  # by the clock at which they reach their limit
        self._marks: Counter[str] = Counter()
        self._tickets = self._clock = 0
        self._reach = 0  # the longest row has this many tokens more than the clock
        self._version = policy.version - 1
        # State of rows [what, row] and what completions write [slot, token]. Rows without a completion write to slot 0.
        new = partial(torch.zeros, device=policy.device)
        self._ints, self._numbers = new((6, 0), dtype=torch.long), new((NUMBERS, 0))
        self._uniform, self._ids = new((1, 0), dtype=torch.float64), new((1, 0), dtype=torch.long)
        self._logp = new((1, 0))
        self._captured: dict[str, Tensor] = {}
        self._free: list[int] = []  # slots

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
            if self._queue and self.engine.open:
                self._join()
            self._close_up()
            if self._jobs:
                self._advance()

    def _join(self) -> None:
        """Give free rows to queued completions."""
        holes = [row for row, job in enumerate(self._jobs) if job is None]
        active = [job for job in self._jobs if job is not None]
        prompt = max((len(job.ticket.text) for job in active), default=0)
        written = max((job.ticket.limit for job in active), default=0)
        chosen: list[tuple[_Ticket, int]] = []
        for ticket, copy in self._waiting():
            longest = max(prompt, len(ticket.text)), max(written, ticket.limit)
            count = len(active) + len(chosen)
            if count and count >= min(self.slots, self.engine.limit(sum(longest))):
                break
            prompt, written = longest
            chosen.append((ticket, copy))
        if not chosen:
            return
        rows = holes[: len(chosen)]
        rows += range(len(self._jobs), len(self._jobs) + len(chosen) - len(rows))
        self.engine.reserve(max(rows) + 1, prompt, written, busy=bool(active))
        self._reserve(self.engine.bucket(max(rows) + 1), max(ticket.limit for ticket, _ in chosen))
        jobs = [self._job(ticket, copy, row) for (ticket, copy), row in zip(chosen, rows, strict=True)]
        while self._queue and self._queue[0].started == self._queue[0].request.n:
            self._queue.popleft()
        self._begin(jobs)

    def _waiting(self) -> Iterator[tuple[_Ticket, int]]:
        for ticket in self._queue:
            for copy in range(ticket.started, ticket.request.n):
                yield ticket, copy

    def _job(self, ticket: _Ticket, copy: int, row: int) -> _Job:
        """A completion in a row."""
        s = ticket.request.sampling
        marks = [f"capture {name}" for name in ticket.request.capture]
        if s.temperature not in (0.0, 1.0):
            marks.append("temperature")
        if s.temperature == 0.0 or s.top_p < 1.0 or s.top_k > 0 or s.min_p > 0.0:
            marks.append("filter")
        if s.warmth is not None:
            marks.append("warmth")
        self._marks.update(marks)
        job = _Job(ticket, copy, row, self._free.pop(), self._clock, self._version, tuple(marks))
        ticket.started += 1
        self._due.setdefault(self._clock + ticket.limit, []).append(job)
        self._jobs.extend([None] * (row + 1 - len(self._jobs)))
        self._jobs[row] = job
        return job

    def _reserve(self, rows: int, tokens: int) -> None:
        """Make room for the state of this many rows and slots, and for completions of this many tokens."""
        slots, width = self._ids.shape
        if rows + 1 <= slots and tokens <= width:
            return
        shape = (max(rows + 1, slots), max(tokens, width))
        self._free.extend(range(max(slots, 1), shape[0]))
        # A slot's place in the flat buffers is slot · width.
        self._ints[FLAT] += self._ints[FLAT] // max(width, 1) * (shape[1] - width)

        def grown(x: Tensor, *size: int) -> Tensor:
            larger = x.new_zeros(size)
            larger[tuple(slice(0, n) for n in x.shape)] = x
            return larger

        self._uniform, self._ids, self._logp = (grown(x, *shape) for x in (self._uniform, self._ids, self._logp))
        self._captured = {name: grown(x, *shape, *x.shape[2:]) for name, x in self._captured.items()}
        had = self._ints.shape[1]
        self._ints, self._numbers = grown(self._ints, 6, shape[0] - 1), grown(self._numbers, NUMBERS, shape[0] - 1)
        self._numbers[:WARMTH, had:] = 1.0  # rows that nobody uses are drawn too: plainly, with steady warmth

    def _begin(self, jobs: list[_Job]) -> None:
        """Put completions into their rows: keys and values of their contexts, and their state."""
        self._prepare(jobs)
        self.engine.admit([j.row for j in jobs], [j.ticket.prompt for j in jobs if j.ticket.prompt is not None])
        width = self._ids.shape[1]
        ints, numbers, keys, starts = [], [], [], []
        for job in jobs:
            t, r, s = job.ticket, job.ticket.request, job.ticket.request.sampling
            greedy = s.temperature == 0.0  # the same as keeping the most likely token alone
            top_k = 1 if greedy else s.top_k
            ints.append((t.text[-1], len(t.text) - 1, job.slot * width, 1, self._stops.row(s.stop), top_k))
            warmth = s.warmth.numbers() if s.warmth is not None else STEADY
            numbers.append((1.0 if greedy else s.temperature, s.top_p, s.min_p, *warmth))
            keys.append(streams.key(self.seed, (*r.stream, r.first + job.copy)))
            starts.append(len(r.prefix))
            if t.started == r.n:
                t.prompt = None  # nobody needs it any more
        device = self.policy.device
        rows, slots = (torch.tensor(x, device=device) for x in ([j.row for j in jobs], [j.slot for j in jobs]))
        self._ints[:, rows] = torch.tensor(ints, device=device).t()
        self._numbers[:, rows] = torch.tensor(numbers, device=device).t()
        count = max(j.ticket.limit for j in jobs)
        self._uniform[slots, :count] = torch.from_numpy(streams.uniforms(keys, starts, count)).to(device)
        self._measure()

    def _measure(self) -> None:
        """The length of the longest row, as a distance to the clock."""
        self._reach = max((len(j.ticket.text) - 1 - j.begun for j in self._jobs if j is not None), default=0)

    def _prepare(self, jobs: Sequence[_Job]) -> None:
        """Encode the contexts of these completions, and while at it of those that come next."""
        missing = {job.ticket.number: job.ticket for job in jobs if job.ticket.prompt is None}
        if not missing:
            return
        tokens = sum(len(t.text) for t in missing.values())
        for ticket in self._queue:
            if ticket.prompt is None and ticket.number not in missing:
                tokens += len(ticket.text)
                if tokens > AHEAD:
                    break
                missing[ticket.number] = ticket
        prompts: dict[Ids, Prompt] = {}
        for texts in _portions(dict.fromkeys(t.text for t in missing.values())):
            prompts |= zip(texts, self.engine.prepare(texts), strict=True)
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
        if moved:
            a, b = (torch.tensor(x, device=self.policy.device) for x in (source, target))
            self._ints[:, b] = self._ints[:, a]
            self._numbers[:, b] = self._numbers[:, a]
            for job, row in zip(moved, target, strict=True):
                job.row, self._jobs[row] = row, job
        self._ints[:, left : len(self._jobs)] = 0
        del self._jobs[left:]
        self._measure()

    # -- one token of every row ------------------------------------------------------------------------------------

    def _advance(self) -> None:
        self._clock += 1
        self.stats.steps += 1
        self.stats.sampled += sum(job is not None for job in self._jobs)
        rows = self._step(self.engine.bucket(len(self._jobs)), self._clock + self._reach).nonzero().view(-1).tolist()
        looked = {job: None for row in rows if (job := self._jobs[row]) is not None}
        looked |= {job: None for job in self._due.pop(self._clock, ()) if job.row >= 0}
        if looked:
            self._look(list(looked))

    def _step(self, n: int, length: int) -> Tensor:
        """Draw a token in each of the first n rows; which of them may have ended by it."""
        ints, numbers = self._ints[:, :n], self._numbers[:, :n]
        token, position, flat, alive, stops, top_k = ints.unbind(0)
        logits = self.engine.step(token, position, length)
        uniform = self._uniform.view(-1).index_select(0, flat)
        temperature = numbers[TEMPERATURE] if self._marks["temperature"] else None
        filters = Filters(top_k, numbers[TOP_P], numbers[MIN_P]) if self._marks["filter"] else None
        warmth = numbers[WARMTH:] if self._marks["warmth"] else None
        drawn = draw(logits, uniform, temperature, filters, warmth)
        self._ids.view(-1).index_copy_(0, flat, drawn.token)
        self._logp.view(-1).index_copy_(0, flat, drawn.logp)
        for mark, count in self._marks.items():
            if count and mark.startswith("capture "):
                self._keep(mark.removeprefix("capture "), drawn, flat)
        token.copy_(drawn.token)
        ints[POSITION : FLAT + 1] += alive
        return self._stops.table[stops, drawn.token]

    def _keep(self, name: str, drawn: Drawn, flat: Tensor) -> None:
        """Write a captured signal of the tokens just drawn."""
        wanted: Capture = capture(name)
        value = wanted(drawn)
        if name not in self._captured:
            self._captured[name] = value.new_zeros((*self._ids.shape, *value.shape[1:]))
        self._captured[name].flatten(0, 1).index_copy_(0, flat, value)

    # -- ends ------------------------------------------------------------------------------------------------------

    def _look(self, jobs: list[_Job]) -> None:
        """End those of these completions that have come to an end."""
        count = max(self._clock - job.begun for job in jobs)
        ended: list[tuple[_Job, Ids, Stop]] = []
        for job, written in zip(jobs, self._written(self._ids, jobs, count), strict=True):
            ids = tuple(written[: self._clock - job.begun])
            stop = self._why(job, ids)
            if stop is not None:
                ended.append((job, ids, stop))
        if not ended:
            return
        gone = [job for job, _, _ in ended]
        rows = [job.row for job in gone]
        logp = self._written(self._logp, gone, count)
        names = {name for job in gone for name in job.ticket.request.capture}
        captured = {name: self._written(self._captured[name], gone, count) for name in names}
        for number, (job, ids, stop) in enumerate(ended):
            kept = {name: readable(captured[name][number][: len(ids)]) for name in job.ticket.request.capture}
            self._end(job, Completion(ids, tuple(logp[number][: len(ids)]), stop, kept))
        self._ints.index_fill_(1, torch.tensor(rows, device=self.policy.device), 0)
        self._measure()

    def _written(self, buffer: Tensor, jobs: list[_Job], count: int) -> list[list[Any]]:
        slots = torch.tensor([job.slot for job in jobs], device=self.policy.device)
        found: list[list[Any]] = buffer[slots, :count].tolist()
        return found

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
        self._jobs[job.row], job.row = None, -1
        self._free.append(job.slot)
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
