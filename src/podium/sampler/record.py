"""Recording a sampler's answers and replaying them: the same rollouts without a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podium.core.errors import PodiumError
from podium.sampler.request import Completion, Generate, Sampler

__all__ = ["Recording", "Replay"]

Journal = dict[Generate, list[Completion]]


class Recording:
    """A sampler that keeps every answer in `journal`."""

    def __init__(self, inner: Sampler) -> None:
        self.inner = inner
        self.journal: Journal = {}
        self._open: dict[int, Generate] = {}

    def submit(self, request: Generate) -> int:
        ticket = self.inner.submit(request)
        self._open[ticket] = request
        return ticket

    def poll(self) -> list[tuple[int, list[Completion]]]:
        answers = self.inner.poll()
        for ticket, completions in answers:
            self.journal[self._open.pop(ticket)] = completions
        return answers

    def generate(self, requests: Sequence[Generate]) -> list[list[Completion]]:
        answers = self.inner.generate(requests)
        self.journal.update(zip(requests, answers, strict=True))
        return answers

    def text(self, ids: Sequence[int]) -> str:
        return self.inner.text(ids)

    def encode(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        return self.inner.encode(messages)


class Replay:
    """A sampler that answers from a journal; `words` encodes and decodes text."""

    def __init__(self, journal: Journal, words: Sampler) -> None:
        self.journal, self.words = journal, words
        self._open: list[tuple[int, Generate]] = []
        self._next = 0

    def submit(self, request: Generate) -> int:
        self._next += 1
        self._open.append((self._next, request))
        return self._next

    def poll(self) -> list[tuple[int, list[Completion]]]:
        answers = [(ticket, self._answer(request)) for ticket, request in self._open]
        self._open = []
        return answers

    def generate(self, requests: Sequence[Generate]) -> list[list[Completion]]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Generate) -> list[Completion]:
        if request not in self.journal:
            raise PodiumError(f"The journal has no answer to this request of stream {request.stream}.")
        return self.journal[request]

    def text(self, ids: Sequence[int]) -> str:
        return self.words.text(ids)

    def encode(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        return self.words.encode(messages)
