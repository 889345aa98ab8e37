"""Rows on a GPU: their keys and values in pages, their steps captured graphs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import torch

from podium.core.errors import PodiumError
from podium.policy.cuda.decode import PagedRead, PagedStep, unusable
from podium.policy.cuda.pages import PAGE, Begun, PagedCache, sent
from podium.policy.forward.decoder import Decoder
from podium.policy.forward.pack import LEAST
from podium.policy.policy import Policy
from podium.sampler.decoding import Decoding
from podium.sampler.paged_board import PagedBoard
from podium.sampler.row_engine import Prompt, RowEngine, Stats, Stepped
from podium.sampler.row_state import Board, StepBoard
from podium.sampler.sampling_check import by_own_pass
from podium.sampler.static_cache import Slots
from podium.sampler.stops import Stops

__all__ = ["Paged", "choose"]

Ids = tuple[int, ...]
# To encode prompts the host launches some 20 operations a layer: 36 to 75 ms on an H200, in which the GPU has little to
# do, whatever their number. As rows of captured steps without a head, 1,024 of their tokens take 2.8 ms and 256 or less
# take 1.2 ms: 8,192 are read in 23 ms. Attention of a row that looks at 512 keys takes as long as all else of it.
READ = 8192  # rows of steps: what takes more is encoded
READ_ROWS = 256, 1024  # the least and the most in one step
READ_KEYS = 512
# Steps multiply large matrices at about half the speed of an encoding pass: with a model of 1.2 billion weights, 8,192
# rows lose 33 ms by it, which is what the launches would take.
READ_WORK = 10**13  # rows × weights
# Of the completions that go on at once, how many more wait for those that end before the host knows of it: two bursts
# of eight tokens are on their way when it does, in which a quarter ends if they have 64 tokens on average.
WAITING = 0.25


def choose(
    policy: Policy, stats: Stats, stops: Stops, slots: int, memory: int | None, paged: bool | None
) -> tuple[RowEngine, Board]:
    """The fastest way in which this policy can be sampled here, so many completions at once."""
    engine: Stepped
    if policy.decoder is None:
        engine = by_own_pass(policy, stats, memory)
        return engine, StepBoard(policy, engine, stops, slots)
    if paged or (paged is None and policy.device.type == "cuda"):
        reason = unusable(policy.decoder) if policy.device.type == "cuda" else None
        if reason is None:
            try:
                pages = Paged(policy.decoder, stats, slots, memory)
                pages.attempt()
                return pages, PagedBoard(policy, pages, stops, slots)
            except PodiumError:
                raise
            except Exception as error:  # whatever a compiler or a driver may say
                reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        said = f"{policy.name or 'The model'} is sampled without fused kernels, which is slower: {reason}."
        warnings.warn(said, stacklevel=3)
    engine = Slots(policy.decoder, stats, memory)
    return engine, StepBoard(policy, engine, stops, slots)


class Paged(Decoding):
    """Rows of pages. `PagedBoard` makes their steps, and no row changes its place."""

    ahead = 16384
    patience = 0  # a step is several tokens

    def __init__(self, decoder: Decoder, stats: Stats, slots: int, memory: int | None = None) -> None:
        super().__init__(decoder, stats, memory)
        self.seats = slots + int(WAITING * slots)
        self.most = max(self.seats, self.bucket(slots))  # rows that are ever needed
        self.pages = PagedCache(decoder, 0, 0, 0, 0)
        self.ready: dict[tuple[int, int], PagedStep] = {}
        self.readers: dict[tuple[int, int], PagedRead] = {}
        self.voided = 0  # how often steps became void
        self.logit_bytes = 4 * decoder.head.weight.shape[0]  # of a row
        weights = sum(p.numel() for p in decoder.model.parameters())
        self.most_read = min(READ, READ_WORK // weights)

    def attempt(self) -> None:
        """Compile the kernels and try them on nothing."""
        cache = PagedCache(self.decoder, LEAST, 0, 0, PAGE)
        step = PagedStep(self.decoder, cache, LEAST, cache.step_length(1))
        nothing = torch.zeros_like(step.work.token)
        step.launch(nothing, nothing, step.work.temperature)
        if not bool(step.work.logits[:LEAST].isfinite().all()):
            raise RuntimeError("the kernels gave numbers that are not finite")

    def _void(self) -> None:
        if self.ready and self.decoder.device.type == "cuda":
            torch.cuda.synchronize(self.decoder.device)  # a graph must not go while it is being replayed
        self.ready.clear()
        self.readers.clear()
        self.voided += 1

    def _reserved(self, rows: int) -> int:
        """For how many rows there is room when so many are needed."""
        return max(rows, min(self.bucket(rows), self.most))

    def size(self, rows: int, contexts: int, prompt: int, written: int) -> int:
        rows = self._reserved(rows)
        pages = PagedCache.pages_for(rows, contexts, prompt, written)
        return pages * PAGE * self.token_bytes + rows * self.logit_bytes

    def room(self, rows: int, contexts: int, prompt: int, written: int) -> bool:
        return self.size(rows, contexts, prompt, written) <= self.memory

    def _reserve(self, rows: int, contexts: int, prompt: int, written: int, busy: bool) -> None:
        rows, old = self._reserved(rows), self.pages
        if old.fits(rows, contexts, prompt, written):
            old.allowed = written
            return
        # Rows of other contexts, and longer ones, may come while these are under way, and larger pages mean that steps
        # are captured anew.
        longer, enough = prompt + prompt // 4 + PAGE, self.size(rows, contexts, prompt, written)
        more = rows if self.size(rows, rows, longer, written) <= 1.25 * enough else min(rows, 2 * contexts)
        if self.room(rows, more, longer, written):
            contexts, prompt = more, longer
        if busy:
            new = old.larger(rows, contexts, prompt, written)
            new.allowed = written
        else:
            self._void()
            del old
            self.pages = PagedCache(self.decoder, 0, 0, 0, 0)  # let go of the old pages before there are new ones
            new = PagedCache(self.decoder, rows, contexts, prompt, written)
        _ = new.work  # made now, while fewer rows can still be chosen
        self.pages = new
        self._void()

    def resume(self, rows: Sequence[int], texts: Sequence[Ids], limits: Sequence[int]) -> list[int]:
        return []  # what a row has written is read back when it ends, and copied for a continuation

    def prepare(self, texts: Sequence[Ids], later: int) -> list[Prompt]:
        prompts = self.recalled(texts)
        cost = later * READ_ROWS[0]  # each of them may come alone
        for prompt in prompts:
            known, length = len(prompt.nodes), len(prompt.text) - 1
            cost += length - known + (length**2 - known**2) // (2 * READ_KEYS)
        return prompts if cost <= self.most_read else self.encoded(prompts)

    def admit(self, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        # Rows under way may hold more than those that come: they were let in when others wrote longer texts.
        lacking = self.pages.lacking([p.text for p in prompts])
        if lacking:
            self.pages = self.pages.larger(spare=lacking)
            self._void()
        blocks: dict[int, list[int]] = {}
        for i, prompt in enumerate(prompts):
            blocks.setdefault(id(prompt.keys), []).append(i)
        begun: list[Begun] = []
        for members in blocks.values():
            first = prompts[members[0]]
            nodes, texts = zip(*((prompts[i].nodes, prompts[i].text) for i in members), strict=True)
            begun += self.pages.admit([rows[i] for i in members], first.keys, first.values, nodes, texts)
        self._read(begun)
        self.pages.spread(begun)

    def _read(self, begun: Sequence[Begun]) -> None:
        """Let the model read what is not known of texts, in steps of which every row is a token of one of them."""
        count = sum(len(text.unread) for text in begun)
        if not count:
            return
        least, most = READ_ROWS
        width = min(max(least, 1 << (count - 1).bit_length()), most)
        steps = -(-count // width)
        numbers = np.zeros((2, steps * width), dtype=np.int64)  # tokens and their places
        numbers[0, :count] = [token for text in begun for token in text.text[text.known : -1]]
        numbers[1, :count] = [place for text in begun for place in text.unread]
        row = np.repeat([text.row for text in begun], [len(text.unread) for text in begun])
        (token, position), rows = sent(self.decoder.device, numbers.reshape(2, steps, width), row)
        table = self.pages.table.new_zeros((steps * width, self.pages.most))  # what is beyond the tokens has page 0
        table[:count] = self.pages.table.index_select(0, rows)
        shape = width, self.pages.step_length(int(numbers[1].max()) + 1)
        if shape not in self.readers:
            self.readers[shape] = PagedRead(self.decoder, self.pages, *shape)
        for given in zip(token, position, table.view(steps, width, -1), strict=True):
            self.readers[shape](*given)
        self.stats.encoded += count

    def leave(self, rows: Sequence[int]) -> None:
        self.pages.vacate(rows)

    def bucket(self, rows: int) -> int:
        """A power of two, or one and a half times one."""
        power = 1 << (max(rows, LEAST) - 1).bit_length()
        return power // 4 * 3 if rows <= power // 4 * 3 and power > 2 * LEAST else power

    def laid_out(self, rows: int, length: int) -> PagedStep:
        """The step of so many rows of up to so many tokens."""
        shape = rows, self.pages.step_length(length)
        if shape not in self.ready:
            self.ready[shape] = PagedStep(self.decoder, self.pages, *shape)
        return self.ready[shape]

    def remember(self, row: int, ids: Ids) -> None:
        if self.prefixes.wants(ids):
            self.prefixes.add(ids, self.pages.read(row, len(ids)))
