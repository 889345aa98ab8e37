"""The queue of requests: when to admit completions, which come next, and which contexts to encode ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from podium.sampler.jobs import PendingRequest
from podium.sampler.row_engine import RowEngine
from podium.sampler.rows import Rows

__all__ = ["Queue"]

Ids = tuple[int, ...]


class Queue:
    """First come, first served; the completions of a request stay together."""

    def __init__(self) -> None:
        self._pending: deque[PendingRequest] = deque()
        self._waiting = 0  # completions without a row
        self._waited = 0  # steps since a completion could have joined

    def __bool__(self) -> bool:
        return bool(self._pending)

    def add(self, pending: PendingRequest) -> None:
        self._pending.append(pending)
        self._waiting += pending.waiting

    def forget(self) -> None:
        """Drop the encoded prompts: the weights have changed."""
        for pending in self._pending:
            pending.prompt = None

    def enough(self, running: int, patience: int) -> bool:
        """Whether it is worth admitting completions now: many are waiting, or they have waited for `patience` steps."""
        if 2 * self._waiting < running and self._waited < patience:
            self._waited += 1
            return False
        self._waited = 0
        return True

    def next(self, rows: Rows, slots: int, engine: RowEngine) -> tuple[list[tuple[PendingRequest, int]], int]:
        """The completions that fit beside the running ones, and how many distinct contexts all of them have."""
        prompt, written = rows.longest()
        contexts, new = len(rows.texts), set[Ids]()
        chosen: list[tuple[PendingRequest, int]] = []
        for pending in self._pending:
            longest = max(prompt, len(pending.text)), max(written, pending.limit)
            different = contexts + (pending.text not in rows.texts and pending.text not in new)
            for copy in range(pending.started, pending.request.n):
                count = rows.running + len(chosen) + 1
                if count > slots or (count > 1 and not engine.fits(count, different, *longest)):
                    return chosen, contexts
                prompt, written = longest
                contexts = different
                chosen.append((pending, copy))
            new.add(pending.text)
        return chosen, contexts

    def take(self, chosen: Sequence[tuple[PendingRequest, int]]) -> None:
        """Remove completions that have got a row."""
        for pending, _ in chosen:
            pending.started += 1
        self._waiting -= len(chosen)
        while self._pending and not self._pending[0].waiting:
            self._pending.popleft()

    def ahead(self, requests: Sequence[PendingRequest], tokens: int) -> list[PendingRequest]:
        """The next requests to encode, as many as make up to `tokens` context tokens together with `requests`."""
        included, more = {pending.number for pending in requests}, []
        total = sum(len(pending.text) for pending in requests)
        for pending in self._pending:
            if pending.prompt is None and pending.number not in included:
                total += len(pending.text)
                if total > tokens:
                    break
                more.append(pending)
        return more
