"""The engine for a GPU: paged attention, with decode steps captured as CUDA graphs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from podium.policy.cuda.decode import PagedRead, PagedStep
from podium.policy.cuda.pages import PAGE, PagedCache, StartedText, send_arrays
from podium.policy.forward.decoder import Decoder
from podium.policy.forward.pack import LEAST
from podium.sampler.decoder_engine import DecoderEngine
from podium.sampler.row_engine import Prompt, Stats

__all__ = ["PagedEngine"]

Ids = tuple[int, ...]
# Prefill is done in one of two ways. An encoding pass launches some 20 operations per layer: 36 to 75 ms on an H200
# whatever the number of tokens, during which the GPU is mostly idle. Reading the tokens as rows of captured steps
# without a head takes 2.8 ms for 1,024 tokens and 1.2 ms for 256 or fewer: 8,192 are read in 23 ms. Attention of a row
# over 512 keys takes as long as the rest of the row.
READ = 8192  # rows of steps; prompts that would take more are encoded
READ_ROWS = 256, 1024  # the least and the most in one step
READ_KEYS = 512
# Steps multiply large matrices at about half the speed of an encoding pass: with a model of 1.2 billion weights, 8,192
# rows lose 33 ms by it, which is what the launches would take.
READ_WORK = 10**13  # rows × weights
# How many completions, as a share of those that advance at once, wait for a lane that ends before the host knows: two
# bursts of eight tokens are under way when it learns of it, in which a quarter ends if completions average 64 tokens.
WAITING = 0.25


class PagedEngine(DecoderEngine):
    """Rows whose keys and values lie in pages. `PagedRowState` runs their steps, and no row changes its place."""

    prefill_ahead = 16384
    patience = 0  # the host looks once in several tokens anyway

    def __init__(self, decoder: Decoder, stats: Stats, slots: int, memory: int | None = None) -> None:
        super().__init__(decoder, stats, memory)
        self.max_rows = slots + int(WAITING * slots)
        self.most = max(self.max_rows, self.bucket(slots))  # rows that can ever be needed
        self.pages = PagedCache(decoder, 0, 0, 0, 0)
        self.ready: dict[tuple[int, int], PagedStep] = {}
        self.readers: dict[tuple[int, int], PagedRead] = {}
        self.voided = 0  # how often the prepared steps were dropped
        self.logit_bytes = 4 * decoder.head.weight.shape[0]  # of a row
        weights = sum(p.numel() for p in decoder.model.parameters())
        self.most_read = min(READ, READ_WORK // weights)

    def attempt(self) -> None:
        """Compile the kernels and run them once on an empty cache."""
        cache = PagedCache(self.decoder, LEAST, 0, 0, PAGE)
        step = PagedStep(self.decoder, cache, LEAST, cache.step_length(1))
        nothing = torch.zeros_like(step.work.token)
        step.launch(nothing, nothing, step.work.temperature)
        if not bool(step.work.logits[:LEAST].isfinite().all()):
            raise RuntimeError("the kernels gave numbers that are not finite")

    def _void(self) -> None:
        if self.ready and self.decoder.device.type == "cuda":
            torch.cuda.synchronize(self.decoder.device)  # a graph must not be freed while it is being replayed
        self.ready.clear()
        self.readers.clear()
        self.voided += 1

    def _reserved(self, rows: int) -> int:
        """For how many rows memory is allocated when so many are needed."""
        return max(rows, min(self.bucket(rows), self.most))

    def size(self, rows: int, contexts: int, prompt: int, written: int) -> int:
        rows = self._reserved(rows)
        pages = PagedCache.pages_for(rows, contexts, prompt, written)
        return pages * PAGE * self.token_bytes + rows * self.logit_bytes

    def fits(self, rows: int, contexts: int, prompt: int, written: int) -> bool:
        return self.size(rows, contexts, prompt, written) <= self.memory

    def _reserve(self, rows: int, contexts: int, prompt: int, written: int, busy: bool) -> None:
        rows, old = self._reserved(rows), self.pages
        if old.fits(rows, contexts, prompt, written):
            old.allowed = written
            return
        # Rows of other contexts, and longer ones, may join while these are running, and growing the cache means that
        # all steps are captured again.
        longer, enough = prompt + prompt // 4 + PAGE, self.size(rows, contexts, prompt, written)
        more = rows if self.size(rows, rows, longer, written) <= 1.25 * enough else min(rows, 2 * contexts)
        if self.fits(rows, more, longer, written):
            contexts, prompt = more, longer
        if busy:
            new = old.larger(rows, contexts, prompt, written)
            new.allowed = written
        else:
            self._void()
            del old
            self.pages = PagedCache(self.decoder, 0, 0, 0, 0)  # free the old pages before allocating new ones
            new = PagedCache(self.decoder, rows, contexts, prompt, written)
        _ = new.work  # allocated now, while fewer rows can still be chosen
        self.pages = new
        self._void()

    def resume(self, rows: Sequence[int], texts: Sequence[Ids], limits: Sequence[int]) -> list[int]:
        return []  # a finished row's keys and values are copied out of its pages by `remember`

    def prepare(self, texts: Sequence[Ids], later: int) -> list[Prompt]:
        prompts = self.recalled(texts)
        cost = later * READ_ROWS[0]  # each of them may get its row alone
        for prompt in prompts:
            cached, length = len(prompt.nodes), len(prompt.text) - 1
            cost += length - cached + (length**2 - cached**2) // (2 * READ_KEYS)
        return prompts if cost <= self.most_read else self.encoded(prompts)

    def admit(self, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        # Running rows may hold more pages than new ones get: they joined when longer completions were allowed.
        lacking = self.pages.lacking([p.text for p in prompts])
        if lacking:
            self.pages = self.pages.larger(spare=lacking)
            self._void()
        blocks: dict[int, list[int]] = {}
        for i, prompt in enumerate(prompts):
            blocks.setdefault(id(prompt.keys), []).append(i)
        started: list[StartedText] = []
        for members in blocks.values():
            first = prompts[members[0]]
            nodes, texts = zip(*((prompts[i].nodes, prompts[i].text) for i in members), strict=True)
            started += self.pages.admit([rows[i] for i in members], first.keys, first.values, nodes, texts)
        self._read(started)
        self.pages.spread(started)

    def _read(self, started: Sequence[StartedText]) -> None:
        """Prefill what is not cached of texts, in steps in which every row is a token of one of them."""
        count = sum(len(text.unread) for text in started)
        if not count:
            return
        least, most = READ_ROWS
        width = min(max(least, 1 << (count - 1).bit_length()), most)
        steps = -(-count // width)
        numbers = np.zeros((2, steps * width), dtype=np.int64)  # tokens and their positions
        numbers[0, :count] = [token for text in started for token in text.text[text.cached : -1]]
        numbers[1, :count] = [place for text in started for place in text.unread]
        row = np.repeat([text.row for text in started], [len(text.unread) for text in started])
        (token, position), rows = send_arrays(self.decoder.device, numbers.reshape(2, steps, width), row)
        table = self.pages.table.new_zeros((steps * width, self.pages.most))  # rows beyond the tokens point at page 0
        table[:count] = self.pages.table.index_select(0, rows)
        shape = width, self.pages.step_length(int(numbers[1].max()) + 1)
        if shape not in self.readers:
            self.readers[shape] = PagedRead(self.decoder, self.pages, *shape)
        for batch in zip(token, position, table.view(steps, width, -1), strict=True):
            self.readers[shape](*batch)
        self.stats.encoded += count

    def leave(self, rows: Sequence[int]) -> None:
        self.pages.vacate(rows)

    def bucket(self, rows: int) -> int:
        """Rounded up to a power of two, or to one and a half times one."""
        power = 1 << (max(rows, LEAST) - 1).bit_length()
        return power // 4 * 3 if rows <= power // 4 * 3 and power > 2 * LEAST else power

    def prepared_step(self, rows: int, length: int) -> PagedStep:
        """The step of so many rows of up to `length` tokens, kept for the next call."""
        shape = rows, self.pages.step_length(length)
        if shape not in self.ready:
            self.ready[shape] = PagedStep(self.decoder, self.pages, *shape)
        return self.ready[shape]

    def remember(self, row: int, ids: Ids) -> None:
        if self.prefixes.wants(ids):
            self.prefixes.add(ids, self.pages.read(row, len(ids)))
