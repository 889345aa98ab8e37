"""Units of work: pending requests, their running completions, and bursts of tokens that the host has not looked at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from podium.core import streams
from podium.core.errors import PodiumError
from podium.policy.policy import Policy
from podium.protocols.sampling import ALLOWED, Completion, Generate
from podium.sampler.capture import capture
from podium.sampler.row_engine import Prompt
from podium.sampler.row_state import RowReport, RowStart

__all__ = ["Burst", "Job", "PendingRequest"]

Ids = tuple[int, ...]


@dataclass
class PendingRequest:
    """A request and the completions that it has so far."""

    number: int  # its ticket
    request: Generate
    text: Ids  # context and prefix
    limit: int  # tokens a completion may have
    done: list[Completion | None]
    prompt: Prompt | None = None
    started: int = 0  # completions that have a row or have had one
    running: int = 0  # completions that have a row

    @classmethod
    def of(cls, number: int, request: Generate, policy: Policy) -> PendingRequest:
        """Raises an error for a request that the policy cannot serve."""
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
        for name in set(request.capture) - {ALLOWED}:
            capture(name)  # raises an error for unknown ones
        return cls(number, request, text, min(request.sampling.max_tokens, room), [None] * request.n)

    @cached_property
    def marks(self) -> list[str]:
        """Features that a decode step needs for this request."""
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
        if s.grammar is not None:
            marks.append("grammar")
        if s.stop:
            marks.append("stop")
        return marks

    @property
    def waiting(self) -> int:
        """How many completions have had no row yet."""
        return self.request.n - self.started


@dataclass(eq=False)
class Job:
    """A completion under way."""

    pending: PendingRequest
    copy: int  # which of the request's completions it is
    row: int  # −1 when it has ended
    slot: int  # where its tokens are written
    begun: int  # the clock when it joined
    version: int  # of the weights then
    resumed: bool  # it continues a cached text in place
    waits: bool = False  # all lanes were taken when it joined: it begins when one of their rows has ended

    def row_start(self, seed: int) -> RowStart:
        """The initial state of its row."""
        t, r = self.pending, self.pending.request
        key = streams.key(seed, (*r.stream, r.first + self.copy))
        at = (t.text[-1], len(t.text) - 1, t.limit)
        return RowStart(self.row, self.slot, *at, r.sampling, key, r.prefix)


@dataclass(frozen=True)
class Burst:
    """Tokens that were drawn, or are being drawn, and that the host has not looked at yet."""

    count: int  # tokens of each row
    jobs: list[Job | None]  # by row
    report: RowReport
