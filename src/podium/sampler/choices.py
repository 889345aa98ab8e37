"""The sampler of a chooser: all requests that wait are answered in one pass through the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from podium.core.bernoulli import CERTAIN
from podium.core.errors import PodiumError
from podium.core.streams import key, uniforms
from podium.policy.choose.chooser import Chooser, ScoredSets, asks, yes_or_no
from podium.protocols.option_set import LINKS, ONE
from podium.protocols.sampling import Completion, Generate, Stop
from podium.sampler.row_engine import Stats

__all__ = ["ChoiceSampler", "NetworkSampler"]

Ids = tuple[int, ...]


class NetworkSampler:
    """The protocol of samplers for policies that are small networks. A subclass answers `complete`."""

    def __init__(self, policy: Any) -> None:
        self.policy, self.stats = policy, Stats()
        self._waiting: dict[int, Generate] = {}
        self._tickets = 0

    @property
    def context_length(self) -> int:
        length: int = self.policy.context_length
        return length

    def submit(self, request: Generate) -> int:
        """Add work; returns its ticket."""
        if request.prefix:
            raise PodiumError(f"A {self.policy.kind} cannot continue what is begun: take a strategy that only samples.")
        self._tickets += 1
        self._waiting[self._tickets] = request
        return self._tickets

    def poll(self) -> list[tuple[int, list[Completion]]]:
        """The completions of all requests that wait."""
        waiting, self._waiting = self._waiting, {}
        return list(zip(waiting, self.generate(list(waiting.values())), strict=True))

    def generate(self, requests: Sequence[Generate]) -> list[list[Completion]]:
        """All completions of several requests, drawn together."""
        rows = [(request, request.first + i) for request in requests for i in range(request.n)]
        with torch.no_grad():
            done = iter(self.complete([r for r, _ in rows], [key(0, (*r.stream, i)) for r, i in rows]) if rows else [])
        answers = [[next(done) for _ in range(request.n)] for request in requests]
        self.stats.sampled += sum(len(c.ids) for answer in answers for c in answer)
        return answers

    def complete(self, requests: Sequence[Generate], keys: Sequence[int]) -> list[Completion]:
        """One completion of each request, drawn from the stream of each key."""
        raise NotImplementedError

    def text(self, ids: Sequence[int]) -> str:
        text: str = self.policy.text(ids)
        return text

    def encode(self, messages: Sequence[Mapping[str, Any]]) -> Ids:
        ids: Ids = self.policy.encode(messages)
        return ids


class ChoiceSampler(NetworkSampler):
    """Samples from a chooser: at temperature 0 the likeliest row, and yes where that is likelier than no."""

    policy: Chooser

    def complete(self, requests: Sequence[Generate], keys: Sequence[int]) -> list[Completion]:
        contexts = [request.context for request in requests]
        temperatures = np.array([request.sampling.temperature for request in requests])
        scored = self.policy.scored(contexts)
        self.stats.steps += 1
        self.stats.encoded += len(set(contexts))
        of_turn, rows = scored.of_turn.cpu().numpy(), scored.rows.double().cpu().numpy()
        pairs, allowed = scored.pairs.double().cpu().numpy(), scored.allowed.cpu().numpy()
        chosen: list[Ids] = []
        for place, context in enumerate(contexts):
            at, t = of_turn[place], temperatures[place]
            first: Ids = ()
            if asks(context) in (ONE, LINKS):
                draw = uniforms([keys[place]], [0], 1)[0, 0]
                first = (_row(np.where(allowed[at], rows[at], -np.inf), t, draw),)
            links = yes_or_no(context, *first)
            odds = np.array([rows[at, i] if j < 0 else pairs[at, i, j] for i, j in links])
            draws = uniforms([keys[place]], [1], max(len(links), 1))[0, : len(links)]
            chosen.append((*first, *_answers(odds, t, draws)))
        captured = self._captured(contexts, chosen, temperatures, scored)
        return [
            Completion(ids, tuple(logp), Stop.end, {"entropy": tuple(entropy)})
            for ids, (logp, entropy) in zip(chosen, captured, strict=True)
        ]

    def _captured(
        self, contexts: Sequence[Ids], chosen: Sequence[Ids], temperatures: NDArray[np.float64], scored: ScoredSets
    ) -> list[tuple[list[float], list[float]]]:
        """The log-probabilities and entropies of each completion; of a greedy one, those at temperature 1."""
        values: list[tuple[list[float], list[float]]] = [([], [])] * len(contexts)
        for t in sorted(set(temperatures.tolist())):
            places = np.flatnonzero(temperatures == t).tolist()
            part = scored.of(torch.tensor(places, device=scored.of_turn.device))
            found = self.policy.signals_of(part, [contexts[n] for n in places], [chosen[n] for n in places], t or 1.0)
            lengths = [len(chosen[n]) for n in places]
            split = (torch.split(found[name].cpu(), lengths) for name in ("logp", "entropy"))
            for n, logp, entropy in zip(places, *split, strict=True):
                values[n] = (logp.tolist(), entropy.tolist())
        return values


def _row(logits: NDArray[np.float64], temperature: float, draw: float) -> int:
    if temperature == 0:
        return int(logits.argmax())
    p = np.exp((logits - logits.max()) / temperature)
    return min(int(np.searchsorted(np.cumsum(p), draw * p.sum())), int(np.flatnonzero(p)[-1]))


def _answers(odds: NDArray[np.float64], temperature: float, draws: NDArray[np.float64]) -> Ids:
    held = np.clip(odds / (temperature or 1.0), -CERTAIN, CERTAIN)
    yes = odds > 0 if temperature == 0 else draws < 1 / (1 + np.exp(-held))
    return tuple(int(x) for x in yes)
