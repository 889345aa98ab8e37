"""Requests as work: tickets, the completions that are under way for them, and the tokens drawn but not looked at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from podium.core import streams
from podium.core.errors import PodiumError
from podium.policy.policy import Policy
from podium.protocols.sampling import Completion, Generate
from podium.sampler.capture import capture
from podium.sampler.row_engine import Prompt
from podium.sampler.row_state import RowReport, Seat

__all__ = ["Burst", "Job", "Ticket"]

Ids = tuple[int, ...]


@dataclass
class Ticket:
    """A request and what has come of it."""

    number: int
    request: Generate
    text: Ids  # context and prefix
    limit: int  # tokens a completion may have
    done: list[Completion | None]
    prompt: Prompt | None = None
    started: int = 0  # completions that have a row or have had one
    running: int = 0  # completions that have a row

    @classmethod
    def of(cls, number: int, request: Generate, policy: Policy) -> Ticket:
        """Refuses what the policy cannot continue."""
        text = (*request.context, *request.prefix)
        room = policy.context_length - len(text)
        if not text:
            raise PodiumError("A request has an empty context: there must be at least one token to continue.")
        if room < 1:
            raise PodiumError(
                f"A prompt of {len(text)} tokens leaves no room to answer in the context of "
                f"{policy.name or 'the model'}, {policy.context_length} tokens. "
                "Use shorter prompts or a model with a longer context."
            )
        for name in request.capture:
            capture(name)  # refuses unknown ones now
        return cls(number, request, text, min(request.sampling.max_tokens, room), [None] * request.n)

    @cached_property
    def marks(self) -> list[str]:
        """What a step must do for the request's sake."""
        s = self.request.sampling
        marks = [f"capture {name}" for name in self.request.capture]
        if s.temperature not in (0.0, 1.0):
            marks.append("temperature")
        if s.temperature == 0.0:
            marks.append("greedy")
        elif s.top_p < 1.0 or s.top_k > 0 or s.min_p > 0.0:
            marks.append("filter")
        if s.warmth is not None:
            marks.append("warmth")
        if s.stop:
            marks.append("stop")
        return marks

    @property
    def waiting(self) -> int:
        """Completions that have had no row yet."""
        return self.request.n - self.started


@dataclass(eq=False)
class Job:
    """A completion under way."""

    ticket: Ticket
    copy: int
    row: int  # −1 when it has ended
    slot: int  # where its tokens are written
    begun: int  # the clock when it joined
    version: int  # of the weights then
    resumed: bool  # it goes on where its text was written so far
    waits: bool = False  # it joined beyond those that go on at once: it begins when one of them has ended

    def seat(self, seed: int) -> Seat:
        """What the board must know of it."""
        t, r = self.ticket, self.ticket.request
        key = streams.key(seed, (*r.stream, r.first + self.copy))
        at = (t.text[-1], len(t.text) - 1, t.limit)
        return Seat(self.row, self.slot, *at, r.sampling, key, len(r.prefix))


@dataclass(frozen=True)
class Burst:
    """Tokens that were drawn, or are being drawn, and not looked at yet."""

    count: int  # of each row
    jobs: list[Job | None]  # by row
    report: RowReport
