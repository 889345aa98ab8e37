"""Rows of a static cache over the decoder's own weights: they join and leave at any time, and a row may go on where its
text was written before."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from podium.core.errors import PodiumError
from podium.policy.decoder import Decoder
from podium.policy.device import GIB, out_of_memory
from podium.policy.native.step import NativeCache, NativeRead, NativeStep
from podium.policy.pack import pack
from podium.policy.step import ROUND, Step
from podium.sampler.engine import NoRoom, Prompt, Stats, memory_for
from podium.sampler.lines import Lines
from podium.sampler.prefixes import Held, Prefixes

__all__ = ["LEAST", "Slots"]

Ids = tuple[int, ...]
# A step has at least this many rows: with fewer, matrix products sum in another order, and the last bits would depend
# on what else is being sampled.
LEAST = 16
GRAIN = 8  # the number of rows of a step is rounded up to this, so that a step is laid out for few different numbers
STEPS = 256  # steps of different numbers of rows and keys that are kept ready


class Slots:
    """Rows of a static cache, over the decoder's own weights."""

    ahead = 4096
    patience = 2

    def __init__(self, decoder: Decoder, stats: Stats, memory: int | None = None) -> None:
        self.decoder, self.stats = decoder, stats
        device = decoder.device
        self.memory = memory = memory_for(device, memory)
        shape = len(decoder.layers) * decoder.kv_heads * decoder.head_size
        self.token_bytes = 2 * shape * torch.empty(0, dtype=decoder.dtype).element_size()
        me = weakref.proxy(self)  # in a circle, a sampler's memory would wait for the garbage collector
        self.prefixes = Prefixes(memory // 4 // self.token_bytes, lambda held: me._gone(held))
        self.lines = Lines(self.prefixes)
        self.cache = decoder.cache(0, 0, 0)
        self._steps: dict[tuple[int, int], Step | NativeStep] = {}
        self._reader: NativeRead | None = None
        self._layout = decoder.layout  # of the weights for which they were made
        self.open = True

    def limit(self, length: int) -> int:
        """How many rows of this length the memory allows."""
        return max(1, self.memory // (self.token_bytes * (-(-max(length, 1) // 64) * 64)))

    def room(self, rows: int, contexts: int, prompt: int, written: int) -> bool:
        return rows <= self.limit(prompt + written)

    def size(self, rows: int, contexts: int, prompt: int, written: int) -> int:
        """Bytes of the keys and values of so many rows."""
        return rows * self.token_bytes * (prompt + written)

    def reserve(self, rows: int, contexts: int, prompt: int, written: int, busy: bool) -> None:
        try:
            self._reserve(rows, contexts, prompt, written, busy)
        except (RuntimeError, PodiumError) as error:
            if not (out_of_memory(error) or out_of_memory(error.__cause__)):
                raise
            raise self._fewer(rows, contexts, prompt, written) from error

    def _fewer(self, rows: int, contexts: int, prompt: int, written: int) -> NoRoom:
        """Take half of the memory from now on, and say so; what to raise, which people see if it was one row."""
        torch.cuda.empty_cache()
        size = self.size(rows, contexts, prompt, written)
        self.memory = min(self.memory, size) // 2
        who = "a rollout" if rows == 1 else f"{rows} rollouts"
        what = f"the keys and values of {who} of up to {prompt + written} tokens, {size / GIB:.1f} GiB"
        if rows > 1:
            warnings.warn(f"The GPU has no room for {what}: from now on fewer are sampled at once.", stacklevel=4)
        return NoRoom(
            f"The GPU has no room for {what}: use a smaller max_tokens, a smaller micro_tokens, which leaves more room "
            "for sampling, or a smaller model."
        )

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

    def prepare(self, texts: Sequence[Ids], later: int) -> list[Prompt]:
        return self.encoded(self.recalled(texts))

    def recalled(self, texts: Sequence[Ids]) -> list[Prompt]:
        """Texts with what is remembered of their beginnings."""
        parts: list[tuple[Tensor, Tensor]] = []
        begin: dict[Ids, int] = {}
        total = 0
        given: list[tuple[int, int]] = []
        for text in texts:
            found = self.prefixes.find(text[:-1])
            if found is None:
                given.append((0, 0))
                continue
            name, held, shared = found
            if name not in begin:
                begin[name] = total
                total += len(name)
                parts.append(self._recall(held, name))
            given.append((begin[name], shared))
        keys, values = (torch.cat([p[i] for p in parts], 1) for i in (0, 1)) if parts else (None, None)
        self.stats.reused += sum(shared for _, shared in given)
        nodes = [np.arange(b, b + shared, dtype=np.int64) for b, shared in given]
        return [Prompt(text, keys, values, path) for text, path in zip(texts, nodes, strict=True)]

    def encoded(self, prompts: Sequence[Prompt]) -> list[Prompt]:
        """Prompts of which nothing is left to be read; those that begin alike share what they have in common."""
        try:
            return self._encoded(prompts)
        except RuntimeError as error:
            if len(prompts) == 1 or not out_of_memory(error):
                raise
        torch.cuda.empty_cache()  # out of the handler, which holds what did not fit
        half = len(prompts) // 2
        return [*self.encoded(prompts[:half]), *self.encoded(prompts[half:])]

    def _encoded(self, prompts: Sequence[Prompt]) -> list[Prompt]:
        fresh = [p for p in prompts if p.unread]
        if not fresh:
            return list(prompts)
        keys, values = fresh[0].keys, fresh[0].values
        known = [(int(p.nodes[0]) if len(p.nodes) else 0, len(p.nodes)) for p in fresh]
        total = 0 if keys is None else keys.shape[1]
        least = self.decoder.least if keys is None else 1
        packed = pack([p.text[:-1] for p in fresh], self.decoder.device, known, total, ROUND, least)
        past = None if keys is None or values is None else list(zip(keys, values, strict=True))
        _, kept = self.decoder.encode(packed, past, keep=True)
        keys, values = torch.stack([k for k, _ in kept]), torch.stack([v for _, v in kept])
        self.stats.encoded += packed.count
        paths = {p.text: path for p, path in zip(fresh, packed.nodes, strict=True)}
        return [Prompt(p.text, keys, values, paths.get(p.text, p.nodes)) for p in prompts]

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
        """The keys and values of a text that is remembered."""
        if isinstance(held, int):
            assert isinstance(self.cache, NativeCache)
            return self.cache.read(held, len(ids))
        return held

    def _gone(self, held: Held) -> None:
        """A text is no longer remembered."""
        if isinstance(self.cache, NativeCache):
            self.lines.give_back(self.cache, held)

    def leave(self, rows: Sequence[int]) -> None:
        if isinstance(self.cache, NativeCache):
            self.cache.leave(rows)

    def renew(self) -> None:
        self.prefixes.clear()
        if isinstance(self.cache, NativeCache):
            self.lines.allowed = self.cache.rows - len(self.cache.free)
        self.decoder.refresh()
        if self._layout != self.decoder.layout:
            self._layout = self.decoder.layout
            self._void()

    def _void(self) -> None:
        """Forget the steps that were laid out."""
        self._steps.clear()
        self._reader = None
