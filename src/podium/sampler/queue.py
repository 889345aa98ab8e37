"""Requests whose completions wait for a row: when they are worth a pass, who comes next, and what is encoded ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from podium.sampler.jobs import Ticket
from podium.sampler.row_engine import RowEngine
from podium.sampler.rows import Rows

__all__ = ["Queue"]

Ids = tuple[int, ...]


class Queue:
    """First come, first served; the completions of a request one after another."""

    def __init__(self) -> None:
        self._tickets: deque[Ticket] = deque()
        self._waiting = 0  # their completions
        self._waited = 0  # steps since somebody could have joined

    def __bool__(self) -> bool:
        return bool(self._tickets)

    def add(self, ticket: Ticket) -> None:
        self._tickets.append(ticket)
        self._waiting += ticket.waiting

    def forget(self) -> None:
        """What was encoded is void."""
        for ticket in self._tickets:
            ticket.prompt = None

    def enough(self, running: int, patience: int) -> bool:
        """Whether those that wait are worth a pass of their own: they are many, or have waited for some steps."""
        if 2 * self._waiting < running and self._waited < patience:
            self._waited += 1
            return False
        self._waited = 0
        return True

    def next(self, rows: Rows, slots: int, engine: RowEngine) -> tuple[list[tuple[Ticket, int]], int]:
        """The completions for which there is room beside those under way, and how many contexts they all have."""
        prompt, written = rows.longest()
        contexts, new = len(rows.texts), set[Ids]()
        chosen: list[tuple[Ticket, int]] = []
        for ticket in self._tickets:
            longest = max(prompt, len(ticket.text)), max(written, ticket.limit)
            different = contexts + (ticket.text not in rows.texts and ticket.text not in new)
            for copy in range(ticket.started, ticket.request.n):
                count = rows.running + len(chosen) + 1
                if count > slots or (count > 1 and not engine.room(count, different, *longest)):
                    return chosen, contexts
                prompt, written = longest
                contexts = different
                chosen.append((ticket, copy))
            new.add(ticket.text)
        return chosen, contexts

    def take(self, chosen: Sequence[tuple[Ticket, int]]) -> None:
        """These have a row now."""
        for ticket, _ in chosen:
            ticket.started += 1
        self._waiting -= len(chosen)
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
