"""Rows on a GPU: pages of keys and values, several tokens drawn in a row by one captured graph each."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from podium.core.errors import PodiumError
from podium.policy.cuda.decode import PAGE, Captured, PagedCache, PagedRead, PagedStep, unusable
from podium.policy.cuda.pages import Begun, sent
from podium.policy.decoder import Decoder
from podium.policy.policy import Policy
from podium.sampler import streams
from podium.sampler.board import ALIVE, FLAT, LAST, POSITION, STOPS, TEMPERATURE, TOKEN, TOP_K, Board, Report
from podium.sampler.engine import Engine, Prompt, Stats
from podium.sampler.plain import by_own_pass
from podium.sampler.slots import LEAST, Slots
from podium.sampler.stops import Stops

__all__ = ["Paged", "PagedBoard", "choose"]

AHEAD = 8  # tokens of each row that are drawn before the host looks at them
# To encode prompts the host launches some 20 operations a layer: 36 to 75 ms on an H200, in which the GPU has little to
# do, whatever their number. As rows of captured steps without a head, 1,024 of their tokens take 2.8 ms and 256 or less
# take 1.2 ms: 8,192 are read in 23 ms. Attention of a row that looks at 512 keys takes as long as all else of it.
READ = 8192  # rows of steps: what takes more is encoded
READ_ROWS = 256, 1024  # the least and the most in one step
READ_KEYS = 512
# Steps multiply large matrices at about half the speed of an encoding pass: with a model of 1.2 billion weights, 8,192
# rows lose 33 ms by it, which is what the launches would take.
READ_WORK = 10**13  # rows × weights


def choose(policy: Policy, stats: Stats, stops: Stops, memory: int | None, paged: bool | None) -> tuple[Engine, Board]:
    """The fastest way in which this policy can be sampled here."""
    engine: Engine
    if policy.decoder is None:
        engine = by_own_pass(policy, stats, memory)
        return engine, Board(policy, engine, stops)
    if paged or (paged is None and policy.device.type == "cuda"):
        reason = unusable(policy.decoder) if policy.device.type == "cuda" else None
        if reason is None:
            try:
                engine = Paged(policy.decoder, stats, memory)
                engine.attempt()
                return engine, PagedBoard(policy, engine, stops)
            except PodiumError:
                raise
            except Exception as error:  # whatever a compiler or a driver may say
                reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        said = f"{policy.name or 'The model'} is sampled without fused kernels, which is slower: {reason}."
        warnings.warn(said, stacklevel=3)
    engine = Slots(policy.decoder, stats, memory)
    return engine, Board(policy, engine, stops)


class Paged(Slots):
    """Rows of pages, over the decoder's own weights."""

    ahead = 16384
    patience = 0  # a step is several tokens

    def __init__(self, decoder: Decoder, stats: Stats, memory: int | None = None) -> None:
        super().__init__(decoder, stats, memory)
        self.pages = PagedCache(decoder, 0, 0, 0, 0)
        self.ready: dict[tuple[int, int], PagedStep] = {}
        self.readers: dict[tuple[int, int], PagedRead] = {}
        self.voided = 0  # how often steps became void
        weights = sum(p.numel() for p in decoder.model.parameters())
        self.most_read = min(READ, READ_WORK // weights)

    def attempt(self) -> None:
        """Compile the kernels and try them on nothing."""
        cache = PagedCache(self.decoder, LEAST, 0, 0, PAGE)
        step = PagedStep(self.decoder, cache, LEAST, cache.step_length(1))
        nothing = torch.zeros(LEAST, dtype=torch.long, device=self.decoder.device)
        if not bool(step(nothing, nothing).isfinite().all()):
            raise RuntimeError("the kernels gave numbers that are not finite")

    def _void(self) -> None:
        if self.ready and self.decoder.device.type == "cuda":
            torch.cuda.synchronize(self.decoder.device)  # a graph must not go while it is being replayed
        self.ready.clear()
        self.readers.clear()
        self.voided += 1

    def size(self, rows: int, contexts: int, prompt: int, written: int) -> int:
        pages = PagedCache.pages_for(self.bucket(rows), contexts, prompt, written)
        logits = 4 * self.bucket(rows) * self.decoder.head.weight.shape[0]
        return pages * PAGE * self.token_bytes + logits

    def room(self, rows: int, contexts: int, prompt: int, written: int) -> bool:
        return self.size(rows, contexts, prompt, written) <= self.memory

    def _reserve(self, rows: int, contexts: int, prompt: int, written: int, busy: bool) -> None:
        rows, old = self.bucket(rows), self.pages
        if old.fits(rows, contexts, prompt, written):
            old.allowed = written
            return
        # Rows of other contexts may come while these are still under way.
        more = min(rows, 2 * contexts)
        contexts = more if self.room(rows, more, prompt, written) else contexts
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

    def prepare(self, texts: Sequence[tuple[int, ...]], later: int) -> list[Prompt]:
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
        numbers[0, :count] = [text.text[place] for text in begun for place in text.unread]
        numbers[1, :count] = [place for text in begun for place in text.unread]
        token, position = sent(numbers, self.decoder.device).view(2, steps, width)
        rows = sent([text.row for text in begun for _ in text.unread], self.decoder.device)
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

    def move(self, source: Sequence[int], target: Sequence[int], left: int) -> None:
        if source:
            self.pages.move(source, target)

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

    def step(self, ids: Tensor, position: Tensor, length: int) -> Tensor:
        return self.laid_out(len(ids), length)(ids, position)

    def remember(self, row: int, ids: tuple[int, ...]) -> None:
        if self.prefixes.wants(ids):
            self.prefixes.add(ids, self.pages.read(row, len(ids)))


class PagedBoard(Board):
    """Draws by a kernel of the captured step where rows want no more than a temperature, 0 or not, and the entropy."""

    engine: Paged

    def __init__(self, policy: Policy, engine: Paged, stops: Stops) -> None:
        super().__init__(policy, engine, stops)
        self.kept["entropy"] = torch.zeros((1, 0), device=self.device)
        self.seen = torch.zeros(0, dtype=torch.int8, device=self.device)
        self._graphs: dict[tuple[int, int], Captured] = {}
        self._drawn_for: tuple[int, ...] = ()  # places of the tensors for which they were made
        self._side: Any = None  # a stream for reading
        if self.device.type == "cuda":
            self._side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        self._event: Any = None  # when what was last looked at had been written

    def ahead(self, marks: Mapping[str, int]) -> int:
        fused = {"temperature", "greedy", "capture entropy"}
        return AHEAD if all(mark in fused for mark, count in marks.items() if count) else 1

    def reserve(self, rows: int, tokens: int) -> None:
        whole = self.engine.pages.kernels.ROWS
        super().reserve(-(-rows // whole) * whole, tokens)
        if len(self.seen) < self.ints.shape[1]:
            self.seen = self.seen.new_zeros(self.ints.shape[1])

    def advance(self, n: int, length: int, marks: Mapping[str, int], count: int = 1) -> Report:
        if self.ahead(marks) == 1:
            self._event = None
            return super().advance(n, length, marks)
        tensors = (self.ints, self.numbers, self.uniform, self.seen, self.stops.table, *self.kept.values())
        places = (self.engine.voided, *(x.data_ptr() for x in tensors))
        if places != self._drawn_for:
            if self._side is not None:
                torch.cuda.synchronize(self.device)  # a graph must not go while it is being replayed
            self._graphs.clear()
            self._drawn_for = places
        key = n, self.engine.pages.step_length(length)
        if key not in self._graphs:
            step = self.engine.laid_out(n, length)
            self._graphs[key] = Captured(lambda: self._launch(step), self.device)
        for _ in range(count):
            self._graphs[key]()
        return self._report(n)

    def _launch(self, step: PagedStep) -> None:
        i, work = self.ints, step.work
        temperature = self.numbers[TEMPERATURE]
        step.launch(i[TOKEN], i[POSITION], temperature)
        state = tuple(i[what] for what in (TOKEN, POSITION, FLAT, LAST, ALIVE, STOPS, TOP_K))
        written = tuple(self.kept[name].view(-1) for name in ("ids", "logp", "entropy"))
        uniform, table = self.uniform.view(-1), self.stops.table
        step.kernels.choose(
            step.rows, work.logits, work.statistics, temperature, uniform, state, table, written, self.seen
        )

    def _report(self, n: int) -> Report:
        """What the device says when it has come so far; the host may go on meanwhile."""
        if self._side is None:
            rows = self.seen[:n].nonzero().view(-1).tolist()
            self.seen.zero_()
            return lambda: rows
        host = torch.empty(n, dtype=torch.int8, pin_memory=True)
        host.copy_(self.seen[:n], non_blocking=True)
        self.seen.zero_()
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()

        def wait() -> list[int]:
            event.synchronize()
            self._event = event
            found: list[int] = host.nonzero().view(-1).tolist()
            return found

        return wait

    def written(self, name: str, slots: Sequence[int], count: int) -> list[list[Any]]:
        """Read beside the burst that is under way, which writes elsewhere."""
        if self._side is None or self._event is None:
            return super().written(name, slots, count)
        with torch.cuda.stream(self._side):
            self._side.wait_event(self._event)
            return super().written(name, slots, count)

    def _uniforms(self, keys: list[int], starts: list[int], count: int) -> Tensor:
        return streams.uniforms_on(
            self.sent(np.asarray(keys, dtype=np.uint64).view(np.int64)), self.sent(starts), count
        )

    def sent(self, numbers: Any) -> Tensor:
        x = torch.as_tensor(numbers)
        return x.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else x
