"""The engine for a CPU: a static KV cache over the decoder. Rows join and leave at any step, and a row can continue a
cached text in place."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from torch import Tensor

from podium.policy.forward.decoder import Decoder
from podium.policy.forward.pack import LEAST
from podium.policy.forward.step import DecodeStep
from podium.policy.native.step import NativeCache, NativeRead, NativeStep
from podium.sampler.decoder_engine import DecoderEngine
from podium.sampler.kept_prefixes import CachedKV
from podium.sampler.prefix_cache import PrefixCache
from podium.sampler.row_engine import Prompt, Stats

__all__ = ["StaticCacheEngine"]

Ids = tuple[int, ...]
GRAIN = 8  # the rows of a step are rounded up to a multiple of this, so that there are few different steps
SEATS = 2  # so many lines for each row that is written, where texts wait to be continued
STEPS = 256  # prepared steps, by numbers of rows and keys, that are kept


class StaticCacheEngine(DecoderEngine):
    """Rows in a static KV cache: `NativeCache` where the native kernels can run the model, else `Cache`."""

    prefill_ahead = 4096
    patience = 2

    def __init__(self, decoder: Decoder, stats: Stats, memory: int | None = None) -> None:
        super().__init__(decoder, stats, memory)
        me = weakref.proxy(self)  # a reference cycle would keep the memory until the garbage collector runs
        self.prefixes.on_evict = lambda held: me._evicted(held)
        self.prefix_cache = PrefixCache(self.prefixes)
        self.cache = decoder.cache(0, 0, 0)
        self._steps: dict[tuple[int, int], DecodeStep | NativeStep] = {}
        self._reader: NativeRead | None = None

    def limit(self, length: int) -> int:
        """How many rows of this length fit in the memory."""
        return max(1, self.memory // (self.token_bytes * (-(-max(length, 1) // 64) * 64)))

    def fits(self, rows: int, contexts: int, prompt: int, written: int) -> bool:
        return rows <= self.limit(prompt + written)

    def size(self, rows: int, contexts: int, prompt: int, written: int) -> int:
        return rows * self.token_bytes * (prompt + written)

    def _reserve(self, rows: int, contexts: int, prompt: int, written: int, busy: bool) -> None:
        rows, old = self.bucket(rows), self.cache
        if self.prefix_cache.kept:  # texts of other seats wait for their next turn while these rows are written
            rows = max(rows, min(SEATS * rows, self.limit(prompt + written)))
        if not old.fits(rows, prompt, written):
            more = rows
            if busy and rows > old.rows:  # work comes in small pieces: grow by more than is needed now
                more = max(rows, self.bucket(min(2 * old.rows, self.limit(prompt + written))))
            holds = busy or self.prefix_cache.kept
            self.cache = old.larger(more, prompt, written) if holds else self.decoder.cache(more, prompt, written)
            self._void()
        self.prefix_cache.allowed = max(self.prefix_cache.allowed, rows)

    def resume(self, rows: Sequence[int], texts: Sequence[Ids], limits: Sequence[int]) -> list[int]:
        cache = self.cache
        if not isinstance(cache, NativeCache):
            return []
        matches = self.prefix_cache.match(cache, texts)
        wanted = {row: matches[text] for row, text in zip(rows, texts, strict=True) if text in matches}
        if not wanted:
            return []
        count = self.bucket(max(wanted) + 1)
        written = max(wanted[row].space_needed(limit) for row, limit in zip(rows, limits, strict=True) if row in wanted)
        self.prefix_cache.allowed = max(self.prefix_cache.allowed, count)
        if not cache.fits(count, 0, written):
            if written > cache.written:  # the next turn needs more
                written = max(written, min(2 * cache.written, self.memory // (self.token_bytes * (cache.rows + 1))))
            cache = self.cache = cache.larger(count, 0, written)
            self._void()
        if self._reader is None:
            self._reader = NativeRead(self.decoder, cache)
        resumed = self.prefix_cache.resume(cache, wanted, self._reader)
        prefixes = {wanted[row] for row in resumed}
        self.stats.reused += sum(prefix.count for prefix in prefixes)
        self.stats.encoded += sum(prefix.unread for prefix in prefixes)
        return resumed

    def admit(self, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        if isinstance(self.cache, NativeCache):
            self.prefix_cache.make_room(self.cache, len(rows))
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
            self.prefix_cache.keep(self.cache.keep(row), ids)
        else:
            self.prefixes.add(ids, self.cache.read(row, len(ids)))

    def _recall(self, held: CachedKV, ids: Ids) -> tuple[Tensor, Tensor]:
        if isinstance(held, int):
            assert isinstance(self.cache, NativeCache)
            return self.cache.read(held, len(ids))
        return super()._recall(held, ids)

    def _evicted(self, held: CachedKV) -> None:
        """Free the line of a text that is no longer kept."""
        if isinstance(self.cache, NativeCache):
            self.prefix_cache.give_back(self.cache, held)

    def leave(self, rows: Sequence[int]) -> None:
        if isinstance(self.cache, NativeCache):
            self.cache.leave(rows)

    def renew(self) -> None:
        super().renew()
        if isinstance(self.cache, NativeCache):
            self.prefix_cache.allowed = self.cache.rows - len(self.cache.free)

    def _void(self) -> None:
        self._steps.clear()
        self._reader = None
