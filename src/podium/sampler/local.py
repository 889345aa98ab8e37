"""The in-process sampler: continuous batching over the trainer's own weights.

Rows of one running batch each write a completion. When one ends, its row goes to the next in the queue, or the last row
takes its place, so that a step costs what its rows cost. The completions of a request share the encoding of its
context. Every completion draws from its own random stream, so that what it writes does not depend on the others.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from podium.core.errors import PodiumError, nearest
from podium.policy.functionals import FUNCTIONALS, Rows
from podium.policy.policy import Policy
from podium.sampler import streams
from podium.sampler.draw import Drawn, Filters, draw
from podium.sampler.engine import LEAST, Engine, Prompt, Slots, Stats, Waves
from podium.sampler.request import Completion, Generate, Stop
from podium.sampler.stops import Stops

__all__ = ["LocalSampler"]

Ids = tuple[int, ...]
AHEAD = 4096  # tokens of queued contexts that are encoded together
TOKEN, POSITION, FLAT, LIMIT, STOPS, TOP_K = range(6)  # of a row's integers
TEMPERATURE, TOP_P, MIN_P = range(3)  # and of its other numbers


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
    slot: int  # where its tokens are written
    begun: int  # the clock when it joined
    version: int
    marks: Counter[str] = field(default_factory=Counter)  # what a step must do for its sake


class LocalSampler:
    """Samples from a policy in this process. `stats` counts what it did."""

    def __init__(self, policy: Policy, *, slots: int = 256, seed: int = 0, memory: int | None = None) -> None:
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
        self._free: list[int] = []  # slots
        self._marks: Counter[str] = Counter()
        self._tickets = self._clock = 0
        self._version = policy.version - 1
        device = policy.device
        self._ints = torch.zeros((6, 0), dtype=torch.long, device=device)  # [what, row]
        self._numbers = torch.zeros((3, 0), dtype=torch.float32, device=device)
        self._uniform = torch.zeros((0, 0), dtype=torch.float64, device=device)  # [slot, token]
        self._ids = torch.zeros((0, 0), dtype=torch.long, device=device)
        self._logp = torch.zeros((0, 0), dtype=torch.float32, device=device)
        self._captured: dict[str, Tensor] = {}  # [slot, token, …]

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
            _capture(name)
        self._tickets += 1
        limit = min(request.sampling.max_tokens, room)
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
            self._fill()
            self._advance()

    def _fill(self) -> None:
        """Give free rows to queued completions, and close the gaps that are left."""
        rows, jobs = self._join() if self.engine.open else ([], [])
        if jobs:
            self._begin(rows, jobs)
        self._close_gaps()

    def _join(self) -> tuple[list[int], list[_Job]]:
        """As many queued completions as there is room for, and a row for each."""
        holes = [row for row, job in enumerate(self._jobs) if job is None]
        active = len(self._jobs) - len(holes)
        length = 0
        chosen: list[tuple[_Ticket, int]] = []
        if active:
            length = max(len(j.ticket.text) + j.ticket.limit for j in self._jobs if j is not None)
        for ticket, copy in self._waiting():
            length = max(length, len(ticket.text) + ticket.limit)
            if active + len(chosen) >= min(self.slots, self.engine.limit(length)) and active + len(chosen) > 0:
                break
            chosen.append((ticket, copy))
        if not chosen:
            return [], []
        rows = holes[: len(chosen)]
        rows += range(len(self._jobs), len(self._jobs) + len(chosen) - len(rows))
        self.engine.reserve(max(rows) + 1, length, busy=active > 0)
        self._reserve(max(rows) + 1, max(ticket.limit for ticket, _ in chosen))
        jobs = []
        for ticket, copy in chosen:
            ticket.started += 1
            marks = Counter({f"capture {name}": 1 for name in ticket.request.capture})
            s = ticket.request.sampling
            marks["temperature"] = int(s.temperature not in (0.0, 1.0))
            marks["filter"] = int(s.temperature == 0.0 or s.top_p < 1.0 or s.top_k > 0 or s.min_p > 0.0)
            self._marks.update(marks)
            jobs.append(_Job(ticket, copy, self._free.pop(), self._clock, self._version, marks))
        while self._queue and self._queue[0].started == self._queue[0].request.n:
            self._queue.popleft()
        return rows, jobs

    def _waiting(self) -> Iterator[tuple[_Ticket, int]]:
        for ticket in self._queue:
            for copy in range(ticket.started, ticket.request.n):
                yield ticket, copy

    def _reserve(self, rows: int, tokens: int) -> None:
        """Make room for the state of this many rows and slots, and for completions of this many tokens."""
        rows, have = max(rows, LEAST), self._ids.shape
        if rows <= have[0] and tokens <= have[1]:
            return
        shape = (max(-(-rows // LEAST) * LEAST, have[0]), max(tokens, have[1]))
        self._free.extend(range(have[0], shape[0]))

        def grown(x: Tensor, *size: int) -> Tensor:
            larger = x.new_zeros(size)
            larger[tuple(slice(0, n) for n in x.shape)] = x
            return larger

        self._uniform, self._ids, self._logp = (grown(x, *shape) for x in (self._uniform, self._ids, self._logp))
        self._captured = {name: grown(x, *shape, *x.shape[2:]) for name, x in self._captured.items()}
        if have[1] and shape[1] != have[1]:  # places in the flat buffers have changed
            slot = self._ints[FLAT] // have[1]
            self._ints[FLAT] += slot * (shape[1] - have[1])
            self._ints[LIMIT] += slot * (shape[1] - have[1])
        self._ints, self._numbers = grown(self._ints, 6, shape[0]), grown(self._numbers, 3, shape[0])
        self._numbers[TEMPERATURE, have[0] :] = 1.0

    def _begin(self, rows: list[int], jobs: list[_Job]) -> None:
        """Put completions into rows: keys and values of their contexts, and their state."""
        self._prepare(jobs)
        self.engine.admit(rows, [j.ticket.prompt for j in jobs if j.ticket.prompt is not None])
        width = self._ids.shape[1]
        ints, numbers, keys, starts = [], [], [], []
        for job in jobs:
            t, r, s = job.ticket, job.ticket.request, job.ticket.request.sampling
            begin = job.slot * width
            greedy = s.temperature == 0.0  # the same as keeping the most likely token alone
            ints.append(
                (t.text[-1], len(t.text) - 1, begin, begin + t.limit, self._stops.row(s.stop), 1 if greedy else s.top_k)
            )
            numbers.append((1.0 if greedy else s.temperature, s.top_p, s.min_p))
            keys.append(streams.key(self.seed, (*r.stream, r.first + job.copy)))
            starts.append(len(r.prefix))
        device = self.policy.device
        self._jobs.extend([None] * (max(rows) + 1 - len(self._jobs)))
        for row, job in zip(rows, jobs, strict=True):
            self._jobs[row] = job
        place = torch.tensor(rows, device=device)
        self._ints[:, place] = torch.tensor(ints, device=device).t()
        self._numbers[:, place] = torch.tensor(numbers, device=device).t()
        count = max(j.ticket.limit for j in jobs)
        slots = torch.tensor([j.slot for j in jobs], device=device)
        self._uniform[slots, :count] = torch.from_numpy(streams.uniforms(keys, starts, count)).to(device)
        for job in jobs:
            if job.ticket.started == job.ticket.request.n:
                job.ticket.prompt = None  # nobody needs it any more

    def _prepare(self, jobs: Sequence[_Job]) -> None:
        """Encode the contexts of these completions, and while at it of those that come next."""
        missing = {id(j.ticket): j.ticket for j in jobs if j.ticket.prompt is None}
        if not missing:
            return
        tokens = sum(len(t.text) for t in missing.values())
        for ticket in self._queue:
            tokens += len(ticket.text)
            if tokens > AHEAD:
                break
            if ticket.prompt is None:
                missing[id(ticket)] = ticket
        texts = list(dict.fromkeys(t.text for t in missing.values()))
        prompts = dict(zip(texts, self.engine.prepare(texts), strict=True))
        for ticket in missing.values():
            ticket.prompt = prompts[ticket.text]

    def _close_gaps(self) -> None:
        """Move the last rows into the places of those that have ended."""
        if all(job is not None for job in self._jobs):
            return
        left = sum(job is not None for job in self._jobs)
        target = [row for row in range(left) if self._jobs[row] is None]
        source = [row for row in range(left, len(self._jobs)) if self._jobs[row] is not None]
        self.engine.move(source, target, left)
        if source:
            a, b = (torch.tensor(x, device=self.policy.device) for x in (source, target))
            self._ints[:, b] = self._ints[:, a]
            self._numbers[:, b] = self._numbers[:, a]
            for old, new in zip(source, target, strict=True):
                self._jobs[new] = self._jobs[old]
        del self._jobs[left:]

    # -- one token of every row ------------------------------------------------------------------------------------

    def _advance(self) -> None:
        jobs = [job for job in self._jobs if job is not None]
        if not jobs:
            return
        self._clock += 1
        length = self._clock + max(len(j.ticket.text) - 1 - j.begun for j in jobs)
        flags = self._step(len(jobs), length)
        self.stats.steps += 1
        self.stats.sampled += len(jobs)
        rows = flags.nonzero().view(-1).tolist()
        if rows:
            self._look(rows)

    def _step(self, n: int, length: int) -> Tensor:
        """Draw a token in each of the first n rows; which of them may have ended."""
        ints, flat = self._ints, self._ints[FLAT, :n]
        logits = self.engine.step(ints[TOKEN], ints[POSITION], n, length)
        drawn = self._draw(logits, self._uniform.view(-1).index_select(0, flat), n)
        self._ids.view(-1).index_copy_(0, flat, drawn.token)
        self._logp.view(-1).index_copy_(0, flat, drawn.logp)
        for mark, count in self._marks.items():
            if count and mark.startswith("capture "):
                self._keep(mark.removeprefix("capture "), drawn, flat)
        ints[TOKEN, :n] = drawn.token
        ints[POSITION : FLAT + 1, :n] += 1
        return self._stops.table[ints[STOPS, :n], drawn.token] | (flat >= ints[LIMIT, :n])

    def _draw(self, logits: Tensor, uniform: Tensor, n: int) -> Drawn:
        numbers = self._numbers[:, :n]
        temperature = numbers[TEMPERATURE] if self._marks["temperature"] else None
        filters = None
        if self._marks["filter"]:
            filters = Filters(self._ints[TOP_K, :n], numbers[TOP_P], numbers[MIN_P])
        return draw(logits, uniform, temperature, filters)

    def _keep(self, name: str, drawn: Drawn, flat: Tensor) -> None:
        """Write a captured signal of the tokens just drawn."""
        function, settings = _capture(name)
        value = function(drawn, **settings)
        if name not in self._captured:
            self._captured[name] = value.new_zeros((*self._ids.shape, *value.shape[1:]))
        self._captured[name].flatten(0, 1).index_copy_(0, flat, value)

    # -- ends ------------------------------------------------------------------------------------------------------

    def _look(self, rows: list[int]) -> None:
        """End the completions of these rows that have come to an end."""
        jobs: list[_Job] = [job for row in rows if (job := self._jobs[row]) is not None]
        slots = torch.tensor([job.slot for job in jobs], device=self.policy.device)
        count = max(self._clock - job.begun for job in jobs)
        written: list[list[int]] = self._ids[slots, :count].tolist()
        ended = []
        for row, job, ids in zip(rows, jobs, written, strict=True):
            ids = ids[: self._clock - job.begun]
            stop = self._why(job, ids)
            if stop is not None:
                ended.append((row, job, tuple(ids), stop))
        if not ended:
            return
        slots = torch.tensor([job.slot for _, job, _, _ in ended], device=self.policy.device)
        logp: list[list[float]] = self._logp[slots, :count].tolist()
        names = {name for _, job, _, _ in ended for name in job.ticket.request.capture}
        captured = {name: self._captured[name][slots, :count].tolist() for name in names}
        for number, (row, job, done, stop) in enumerate(ended):
            kept = {
                name: tuple(_pairs(v) for v in captured[name][number][: len(done)])
                for name in job.ticket.request.capture
            }
            self._end(row, job, Completion(done, tuple(logp[number][: len(done)]), stop, kept))

    def _why(self, job: _Job, ids: list[int]) -> Stop | None:
        request = job.ticket.request
        if ids[-1] in self.policy.end_ids:
            return Stop.end
        if request.sampling.stop and self._stops.met(request.sampling.stop, request.prefix, ids):
            return Stop.text
        if len(ids) < job.ticket.limit:
            return None
        return Stop.length if job.ticket.limit == request.sampling.max_tokens else Stop.context

    def _end(self, row: int, job: _Job, completion: Completion) -> None:
        ticket = job.ticket
        if ticket.request.keep and job.version == self.policy.version:
            # The last token has been drawn but not read.
            self.engine.remember(row, (*ticket.text, *completion.ids[:-1]))
        self._jobs[row] = None
        self._free.append(job.slot)
        self._marks.subtract(job.marks)
        ticket.done[job.copy] = completion
        if ticket.started == ticket.request.n and all(c is not None for c in ticket.done):
            self._ready[ticket.number] = [c for c in ticket.done if c is not None]


def _pairs(value: Any) -> Any:
    """A captured value as a number, or as (id, log-probability) pairs."""
    if isinstance(value, float):
        return value
    half = len(value) // 2
    return tuple((int(i), p) for i, p in zip(value[:half], value[half:], strict=True))


def _topk(drawn: Drawn, k: int = 5) -> Tensor:
    """[n, 2 k] the most likely tokens: their ids, then their log-probabilities."""
    logp, ids = drawn.log_softmax.topk(min(k, drawn.log_softmax.shape[1]), dim=-1)
    return torch.cat([ids.double(), logp.double()], 1)


def _of_head(name: str) -> Any:
    def value(drawn: Drawn) -> Tensor:
        return FUNCTIONALS[name](Rows.of(drawn.log_softmax, drawn.token))

    return value


def _capture(name: str) -> tuple[Any, dict[str, Any]]:
    """What computes a captured signal: `entropy` or another functional of the head, `topk`, or `topk=K`."""
    kind, _, number = name.partition("=")
    if kind == "topk" and (not number or (number.isdigit() and int(number) > 0)):
        return _topk, {"k": int(number)} if number else {}
    if name not in FUNCTIONALS or name == "value":
        known = {"topk", *FUNCTIONALS} - {"value"}
        raise PodiumError(f"The sampler cannot capture {name!r}. {nearest(name, known)}")
    return _of_head(name), {}
