"""A sampler whose engine has a copy of the weights: it hands work on, and renews the copy when weights change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from podium.core.errors import PodiumError
from podium.policy.policy import Policy
from podium.protocols.sampling import Completion, Generate
from podium.sampler.outside.mapping import EngineAnswer, completion, engine_settings
from podium.sampler.row_engine import Stats

__all__ = ["OutsideSampler"]

Ids = tuple[int, ...]
Place = tuple[int, int]  # of a completion: the ticket of its request, and its number in it


class OutsideSampler(ABC):
    """One request to the engine per completion, each with a seed of its own: the same tokens in any batch."""

    name: str  # of the engine, in messages

    def __init__(self, policy: Policy, *, seed: int = 0) -> None:
        self.policy, self.seed = policy, seed
        self.stats = Stats()
        self._version: int | None = None  # of the policy's weights that the engine has
        self._tickets = 0
        self._open: dict[int, tuple[Generate, list[Completion | None]]] = {}
        self._ready: dict[int, list[Completion]] = {}

    # -- what an engine does -----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def context_length(self) -> int:
        """The most tokens that a context and its completion can have together."""

    @abstractmethod
    def renew(self) -> None:
        """Give the engine the policy's weights, and drop what it has computed with the old ones."""

    @abstractmethod
    def start(self, place: Place, text: Ids, settings: Mapping[str, Any]) -> None:
        """Begin a completion of a text."""

    @abstractmethod
    def finished(self) -> list[tuple[Place, EngineAnswer]]:
        """Work until at least one completion has ended."""

    @abstractmethod
    def close(self) -> None:
        """Give back what the engine holds."""

    # -- the sampler's protocol ----------------------------------------------------------------------------------------

    def submit(self, request: Generate) -> int:
        """Add a request; returns its ticket."""
        self._renew_if_stale()
        self._tickets += 1
        text = (*request.context, *request.prefix)
        room = self._room(text)
        if request.n < 1:
            self._ready[self._tickets] = []
            return self._tickets
        ends, begun = self.policy.end_ids, list[tuple[Place, dict[str, Any]]]()
        for copy in range(request.n):
            begun.append(((self._tickets, copy), engine_settings(request, copy, self.seed, room, ends)))
        self._open[self._tickets] = (request, [None] * request.n)
        self.stats.encoded += len(text)
        for place, settings in begun:
            self.start(place, text, settings)
        return self._tickets

    def poll(self) -> list[tuple[int, list[Completion]]]:
        """Sample until at least one request is complete; returns the complete ones."""
        while not self._ready and self._open:
            for (ticket, copy), drawn in self.finished():
                self._end(ticket, copy, drawn)
        ready, self._ready = sorted(self._ready.items()), {}
        return ready

    def generate(self, requests: Sequence[Generate]) -> list[list[Completion]]:
        """The completions of several requests, sampled together."""
        tickets, found = [self.submit(request) for request in requests], dict[int, list[Completion]]()
        while len(found) < len(tickets):
            found |= dict(self.poll())
        return [found[ticket] for ticket in tickets]

    def text(self, ids: Sequence[int]) -> str:
        """Token ids as text, without special tokens."""
        return self.policy.text(ids)

    def encode(self, messages: Sequence[Mapping[str, Any]]) -> Ids:
        """A conversation as token ids, up to where the model's turn begins."""
        return self.policy.encode(messages)

    # -- within --------------------------------------------------------------------------------------------------------

    def _renew_if_stale(self) -> None:
        if self._version == self.policy.version:
            return
        if self._open:
            raise PodiumError(f"The weights have changed while {self.name} was still sampling with the old ones.")
        self.renew()
        self._version = self.policy.version

    def _room(self, text: Ids) -> int:
        room = self.context_length - len(text)
        if not text:
            raise PodiumError("A request has an empty context: there must be at least one token to continue.")
        if room < 1:
            raise PodiumError(
                f"A prompt of {len(text)} tokens leaves no room to answer in the context of {self.name}, "
                f"{self.context_length} tokens. Use shorter prompts, or give the engine a longer context."
            )
        return room

    def _end(self, ticket: int, copy: int, drawn: EngineAnswer) -> None:
        request, done = self._open[ticket]
        room = self._room((*request.context, *request.prefix))
        done[copy] = completion(request, drawn, room, self.policy.end_ids)
        self.stats.sampled += len(drawn.ids)
        if all(one is not None for one in done):
            del self._open[ticket]
            self._ready[ticket] = [one for one in done if one is not None]
