"""Requests whose completions wait for a row: when they are worth a pass, who comes next, and what is encoded ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from podium.sampler.engine import Engine
from podium.sampler.jobs import Job, Ticket

__all__ = ["Queue"]

Ids = tuple[int, ...]


class Queue:
    """First come, first served; the completions of a request one after another."""

    def __init__(self) -> None:
        self._tickets: deque[Ticket] = deque()
        self._waited = 0  # steps since somebody could have joined

    def __bool__(self) -> bool:
        return bool(self._tickets)

    def add(self, ticket: Ticket) -> None:
        self._tickets.append(ticket)

    def forget(self) -> None:
        """What was encoded is void."""
        for ticket in self._tickets:
            ticket.prompt = None

    def enough(self, running: int, patience: int) -> bool:
        """Whether those that wait are worth a pass of their own: they are many, or have waited for some steps."""
        waiting = sum(ticket.waiting for ticket in self._tickets)
        if 2 * waiting < running and self._waited < patience:
            self._waited += 1
            return False
        self._waited = 0
        return True

    def next(self, active: Sequence[Job], slots: int, engine: Engine) -> tuple[list[tuple[Ticket, int]], int]:
        """The completions for which there is room beside those under way, and how many contexts they all have."""
        prompt = max((len(job.ticket.text) for job in active), default=0)
        written = max((job.ticket.limit for job in active), default=0)
        contexts = {job.ticket.text for job in active}
        chosen: list[tuple[Ticket, int]] = []
        for ticket, copy in self._waiting():
            longest = max(prompt, len(ticket.text)), max(written, ticket.limit)
            count = len(active) + len(chosen) + 1
            if count > slots:
                break
            different = len(contexts) + (ticket.text not in contexts)
            if count > 1 and not engine.room(count, different, *longest):
                break
            prompt, written = longest
            contexts.add(ticket.text)
            chosen.append((ticket, copy))
        return chosen, len(contexts)

    def _waiting(self) -> Iterator[tuple[Ticket, int]]:
        for ticket in self._tickets:
            for copy in range(ticket.started, ticket.request.n):
                yield ticket, copy

    def move_up(self) -> None:
        """Let go of requests whose completions have all had a row."""
        while self._tickets and not self._tickets[0].waiting:
            self._tickets.popleft()

    def ahead(self, tickets: Sequence[Ticket], tokens: int) -> list[Ticket]:
        """Those that come next and are not encoded yet, as many as make so many tokens together with these."""
        known, found = {ticket.number for ticket in tickets}, []
        total = sum(len(ticket.text) for ticket in tickets)
        for ticket in self._tickets:
            if ticket.prompt is None and ticket.number not in known:
                total += len(ticket.text)
                if total > tokens:
                    break
                found.append(ticket)
        return found
