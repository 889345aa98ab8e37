"""Rows of a static cache over the decoder's own weights: they join and leave at any time, and a row may go on where its
text was written before."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from torch import Tensor

from podium.policy.forward.decoder import Decoder
from podium.policy.forward.pack import LEAST
from podium.policy.forward.step import DecodeStep
from podium.policy.native.step import NativeCache, NativeRead, NativeStep
from podium.sampler.decoding import Decoding
from podium.sampler.kept_prefixes import Held
from podium.sampler.prefix_cache import Lines
from podium.sampler.row_engine import Prompt, Stats

__all__ = ["Slots"]

Ids = tuple[int, ...]
GRAIN = 8  # the number of rows of a step is rounded up to this, so that a step is laid out for few different numbers
STEPS = 256  # steps of different numbers of rows and keys that are kept ready


class Slots(Decoding):
    """Rows of a static cache."""

    ahead = 4096
    patience = 2

    def __init__(self, decoder: Decoder, stats: Stats, memory: int | None = None) -> None:
        super().__init__(decoder, stats, memory)
        me = weakref.proxy(self)  # in a circle, a sampler's memory would wait for the garbage collector
        self.prefixes.gone = lambda held: me._gone(held)
        self.lines = Lines(self.prefixes)
        self.cache = decoder.cache(0, 0, 0)
        self._steps: dict[tuple[int, int], DecodeStep | NativeStep] = {}
        self._reader: NativeRead | None = None

    def limit(self, length: int) -> int:
        """How many rows of this length the memory allows."""
        return max(1, self.memory // (self.token_bytes * (-(-max(length, 1) // 64) * 64)))

    def room(self, rows: int, contexts: int, prompt: int, written: int) -> bool:
        return rows <= self.limit(prompt + written)

    def size(self, rows: int, contexts: int, prompt: int, written: int) -> int:
        return rows * self.token_bytes * (prompt + written)

    def _reserve(self, rows: int, contexts: int, prompt: int, written: int, busy: bool) -> None:
        rows, old = self.bucket(rows), self.cache
        if not old.fits(rows, prompt, written):
            more = rows
            if busy and rows > old.rows:  # work comes in small pieces: grow by more than asked
                more = max(rows, self.bucket(min(2 * old.rows, self.limit(prompt + written))))
            holds = busy or self.lines.kept
            self.cache = old.larger(more, prompt, written) if holds else self.decoder.cache(more, prompt, written)
            self._void()
        self.lines.allowed = max(self.lines.allowed, rows)

    def resume(self, rows: Sequence[int], texts: Sequence[Ids], limits: Sequence[int]) -> list[int]:
        cache = self.cache
        if not isinstance(cache, NativeCache):
            return []
        known = self.lines.known(cache, texts)
        asked = {row: known[text] for row, text in zip(rows, texts, strict=True) if text in known}
        if not asked:
            return []
        count = self.bucket(max(asked) + 1)
        written = max(asked[row].room(limit) for row, limit in zip(rows, limits, strict=True) if row in asked)
        self.lines.allowed = max(self.lines.allowed, count)
        if not cache.fits(count, 0, written):
            if written > cache.written:  # the next turn needs more
                written = max(written, min(2 * cache.written, self.memory // (self.token_bytes * (cache.rows + 1))))
            cache = self.cache = cache.larger(count, 0, written)
            self._void()
        if self._reader is None:
            self._reader = NativeRead(self.decoder, cache)
        going = self.lines.go_on(cache, asked, self._reader)
        begun = {asked[row] for row in going}
        self.stats.reused += sum(text.count for text in begun)
        self.stats.encoded += sum(text.unread for text in begun)
        return going

    def admit(self, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        if isinstance(self.cache, NativeCache):
            self.lines.clear_out(self.cache, len(rows))
        self.cache.vacate(rows)
        blocks: dict[int, list[int]] = {}
        for i, prompt in enumerate(prompts):
            if len(prompt.text) > 1:
                blocks.setdefault(id(prompt.keys), []).append(i)
        for members in blocks.values():
            keys, values = prompts[members[0]].keys, prompts[members[0]].values
            assert keys is not None
            assert values is not None
            nodes, texts = zip(*((prompts[i].nodes, prompts[i].text) for i in members), strict=True)
            self.cache.admit([rows[i] for i in members], keys, values, nodes, texts)

    def move(self, source: Sequence[int], target: Sequence[int], left: int) -> None:
        if source:
            self.cache.move(source, target)

    def bucket(self, rows: int) -> int:
        return max(-(-rows // GRAIN) * GRAIN, LEAST)

    def step(self, ids: Tensor, position: Tensor, length: int) -> Tensor:
        shape = ids.shape[0], self.cache.step_length(length)
        if shape not in self._steps:
            if len(self._steps) == STEPS:
                self._steps.clear()
            self._steps[shape] = self.decoder.step(self.cache, *shape)
        return self._steps[shape](ids, position)

    def remember(self, row: int, ids: Ids) -> None:
        if not self.prefixes.wants(ids):
            return
        if isinstance(self.cache, NativeCache):
            self.lines.keep(self.cache.keep(row), ids)
        else:
            self.prefixes.add(ids, self.cache.read(row, len(ids)))

    def _recall(self, held: Held, ids: Ids) -> tuple[Tensor, Tensor]:
        if isinstance(held, int):
            assert isinstance(self.cache, NativeCache)
            return self.cache.read(held, len(ids))
        return super()._recall(held, ids)

    def _gone(self, held: Held) -> None:
        """A text is no longer remembered."""
        if isinstance(self.cache, NativeCache):
            self.lines.give_back(self.cache, held)

    def leave(self, rows: Sequence[int]) -> None:
        if isinstance(self.cache, NativeCache):
            self.cache.leave(rows)

    def renew(self) -> None:
        super().renew()
        if isinstance(self.cache, NativeCache):
            self.lines.allowed = self.cache.rows - len(self.cache.free)

    def _void(self) -> None:
        self._steps.clear()
        self._reader = None
