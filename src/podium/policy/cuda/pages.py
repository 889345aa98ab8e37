"""The paged KV cache: pages of keys and values, and which of them each row uses.

Keys and values live in pages of PAGE tokens. A row's page table lists the pages that hold its text; rows that continue
the same prompt list the same pages for it, so that it is stored once, whatever the number of rows. A row that joins
gets pages for everything it may write, so that a step never runs out of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from podium.core.errors import PodiumError

if TYPE_CHECKING:
    from podium.policy.forward.decoder import Decoder

__all__ = ["PAGE", "StartedText", "PagedCache", "Work", "launches", "send_arrays"]

PAGE = 16
KINDS = {np.dtype(x): getattr(torch, x) for x in ("int32", "int64", "float32", "float64")}
Ids = tuple[int, ...]


def launches(device: torch.device) -> Any:
    """The module with the functions of a step: kernels on a GPU, plain torch elsewhere."""
    name = "decode_launch" if device.type == "cuda" else "decode_reference"
    return import_module(f"podium.policy.cuda.{name}")


def send_arrays(device: torch.device, *arrays: Sequence[int] | NDArray[Any]) -> list[Tensor]:
    """Arrays as tensors on the device, by a single copy that does not wait for the device's work."""
    contiguous = [np.ascontiguousarray(x) for x in arrays]
    *begins, end = accumulate((-(-x.nbytes // 8) * 8 for x in contiguous), initial=0)  # aligned for every dtype
    packed = torch.empty(end, dtype=torch.uint8, pin_memory=device.type == "cuda")
    host = packed.numpy()
    for x, begin in zip(contiguous, begins, strict=True):
        host[begin : begin + x.nbytes] = x.reshape(-1).view(np.uint8)
    copied = packed.to(device, non_blocking=True)
    return [
        copied[begin : begin + x.nbytes].view(KINDS[x.dtype]).view(x.shape)
        for x, begin in zip(contiguous, begins, strict=True)
    ]


@contextmanager
def _room(what: str) -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise PodiumError(
            f"The GPU has no room for {what}: use a smaller max_tokens, or fewer rollouts at once "
            "(`slots` or `memory` of the sampler)."
        ) from error


@dataclass
class _Shared:
    """The full pages of a prompt and how many rows use them."""

    text: Ids
    pages: NDArray[np.int32]
    rows: int = 0


@dataclass
class StartedText:
    """A text with which rows begin. Only the pages of the first row hold what is cached of it, until `spread`."""

    row: int
    text: Ids
    cached: int  # how many of its tokens have their keys and values in place
    page: int  # the first page of the row's own, with the end of the text that does not fill a page
    others: list[int] = field(default_factory=list)  # the corresponding pages of the other rows

    @property
    def unread(self) -> range:
        """The positions still to be read, not counting the last token, which the first decode step reads."""
        return range(self.cached, len(self.text) - 1)


class PagedCache:
    """Pages for `contexts` distinct prompts of up to `prompt` tokens, for `rows` rows that write up to `written` tokens
    each, and `spare` more. Page 0 is not given out: rows without a completion read and write there.
    """

    def __init__(self, decoder: Decoder, rows: int, contexts: int, prompt: int, written: int, spare: int = 0) -> None:
        self.decoder, self.kernels = decoder, launches(decoder.device)
        self.rows, self.contexts, self.prompt, self.written = rows, contexts, prompt, written
        self.allowed = written  # how many tokens rows that join now may write
        self.count = self.pages_for(rows, contexts, prompt, written) + spare
        self.most = -(-(prompt + written) // PAGE) + 1
        self.device = decoder.device
        shape = (len(decoder.layers), 2, self.count, decoder.kv_heads, PAGE, decoder.head_size)
        size = torch.Size(shape).numel() * decoder.dtype.itemsize / 2**30
        with _room(f"{size:.1f} GiB of keys and values of {rows} rollouts of up to {prompt + written} tokens"):
            # Zeros, not uninitialised memory: what lies beyond a row's end is multiplied by 0 and must be finite.
            self.pool = torch.zeros(shape, dtype=decoder.dtype, device=self.device)
        room = -(-max(rows, 1) // self.kernels.ROWS) * self.kernels.ROWS
        self.table = torch.zeros((room, self.most), dtype=torch.int32, device=self.device)
        self.front = torch.zeros_like(self.table)  # the tables of the rows in a step's lanes
        self._free = np.arange(self.count - 1, 0, -1, dtype=np.int32)
        self._held: list[tuple[_Shared, NDArray[np.int32]] | None] = [
            None
        ] * rows  # by row: its prompt's pages and its own
        self._shared: dict[Ids, _Shared] = {}
        self._work: Work | None = None

    @staticmethod
    def pages_for(rows: int, contexts: int, prompt: int, written: int) -> int:
        return 1 + contexts * (prompt // PAGE) + rows * (-(-written // PAGE) + 1)

    @property
    def work(self) -> Work:
        """The workspace of a step."""
        if self._work is None:
            with _room(f"the logits of {self.rows} rollouts"):
                self._work = Work(self.decoder, self.table.shape[0], self.kernels)
        return self._work

    def fits(self, rows: int, contexts: int, prompt: int, written: int) -> bool:
        enough = self.pages_for(rows, contexts, prompt, written) <= self.count
        return enough and rows <= self.rows and -(-(prompt + written) // PAGE) + 1 <= self.most

    def larger(self, rows: int = 0, contexts: int = 0, prompt: int = 0, written: int = 0, spare: int = 0) -> PagedCache:
        """A cache at least as large in every respect, with `spare` pages more and the same content."""
        rows, contexts = max(rows, self.rows), max(contexts, self.contexts)
        prompt, written = max(prompt, self.prompt), max(written, self.written)
        lacking = max(0, self.count + spare - self.pages_for(rows, contexts, prompt, written))
        new = PagedCache(self.decoder, rows, contexts, prompt, written, lacking)
        new.allowed = self.allowed
        new.pool[:, :, : self.count] = self.pool
        new.table[: self.table.shape[0], : self.most] = self.table
        new._free = np.concatenate([np.arange(new.count - 1, self.count - 1, -1, dtype=np.int32), self._free])
        new._held[: self.rows] = self._held
        new._shared = self._shared
        return new

    def lacking(self, texts: Sequence[Ids]) -> int:
        """How many pages are missing for rows to begin with texts."""
        unshared = sum(self._needed(text) for text in texts)
        distinct = set({id(text): text for text in texts}.values())  # a long text takes long to hash
        new = sum((len(text) - 1) // PAGE for text in distinct if text not in self._shared)
        return max(0, unshared + new - len(self._free))

    def _needed(self, text: Ids) -> int:
        """How many pages of its own a row needs that begins with a text without its last token."""
        length = len(text) - 1
        return -(-(length + self.allowed) // PAGE) - length // PAGE

    def _take(self, count: int) -> NDArray[np.int32]:
        """Take so many free pages."""
        left = len(self._free) - count
        taken = self._free[left:].copy()
        self._free = self._free[:left]
        return taken

    def vacate(self, rows: Sequence[int]) -> None:
        """Free the pages of rows."""
        freed = [self._free]
        for row in rows:
            held, self._held[row] = self._held[row], None
            if held is None:
                continue
            shared, own = held
            freed.append(own)
            shared.rows -= 1
            if not shared.rows:
                freed.append(shared.pages)
                del self._shared[shared.text]
        self._free = np.concatenate(freed)

    def admit(
        self,
        rows: Sequence[int],
        keys: Tensor | None,
        values: Tensor | None,
        nodes: Sequence[NDArray[np.int64]],
        texts: Sequence[Ids],
    ) -> list[StartedText]:
        """Start rows with texts without their last tokens. The first tokens of each text are `nodes` of keys and values
        [layers, nodes, kv, size]; the rest must be read, and then copied to all rows of the text by `spread`."""
        table = np.zeros((len(rows), self.most), dtype=np.int32)
        moved: list[
            tuple[NDArray[np.int64], NDArray[np.int32]]
        ] = []  # runs of nodes, and the pages that they fill from the start
        started: dict[Ids, tuple[StartedText, _Shared]] = {}
        for number, (row, path, text) in enumerate(zip(rows, nodes, texts, strict=True)):
            full, rest = divmod(len(text) - 1, PAGE)
            own = self._take(self._needed(text))
            earlier = started.get(text)
            if earlier is None:
                cached, shared = len(path), self._shared.get(text)
                if shared is None:
                    shared = self._shared[text] = _Shared(text, self._take(full))
                    moved.append((path[: full * PAGE], shared.pages))
                else:  # running rows hold the full pages
                    cached = max(cached, full * PAGE)
                started[text] = StartedText(row, text, cached, int(own[0])), shared
                moved.append((path[full * PAGE :], own[:1]))
            else:
                first, shared = earlier
                if rest and len(path) == len(text) - 1:
                    moved.append((path[full * PAGE :], own[:1]))
                elif rest:
                    first.others.append(int(own[0]))
            shared.rows += 1
            self._held[row] = shared, own
            table[number, :full] = shared.pages
            table[number, full : full + len(own)] = own
        placed = [_placed(moved)] if keys is not None else []
        at, pages, *places = send_arrays(self.device, rows, table, *placed)
        self.table.index_copy_(0, at, pages)
        for kind, given in enumerate((keys, values)):
            if given is not None:
                node, page, place = places[0]
                self.pool[:, kind][:, page, :, place] = given.index_select(1, node).transpose(0, 1).to(self.pool.dtype)
        return [first for first, _ in started.values()]

    def spread(self, started: Sequence[StartedText]) -> None:
        """Copy the page on which a text ends to the other rows that begin with it: each continues on its own copy."""
        target = [page for text in started for page in text.others]
        if target:
            source = [text.page for text in started for _ in text.others]
            a, b = send_arrays(self.device, source, target)
            self.pool.index_copy_(2, b, self.pool.index_select(2, a))

    def read(self, row: int, length: int) -> tuple[Tensor, Tensor]:
        """Keys and values [layers, length, kv, size] of the first tokens of a row."""
        at = torch.arange(length, device=self.device)
        page = self.table[row, at // PAGE].long()
        keys, values = (self.pool[:, kind][:, page, :, at % PAGE].transpose(0, 1).contiguous() for kind in (0, 1))
        return keys, values

    def step_length(self, length: int) -> int:
        """For how many keys a step is prepared if no row is longer than `length`: at most about an eighth more."""
        chunks = -(-length // self.kernels.CHUNK)
        grain = 1 << max(0, chunks.bit_length() - 4)
        return int(self.kernels.CHUNK * -(-chunks // grain) * grain)


class Work:
    """The workspace of a step of so many rows, and its logits, if any."""

    def __init__(self, decoder: Decoder, rows: int, kernels: Any, logits: bool = True) -> None:
        d, low = decoder, decoder.dtype
        assert d.weights is not None
        layer = d.weights.layers[0]
        inner = layer.gate_up.shape[0] // 2
        vocabulary = d.head.weight.shape[0] if logits else 0

        def new(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros((rows, *shape), dtype=dtype, device=d.device)

        self.token, self.position = new(dtype=torch.long), new(dtype=torch.long)
        self.x, self.y = new(d.width), new(d.width, dtype=low)
        self.q, self.attended = new(d.heads * d.head_size, dtype=low), new(d.heads * d.head_size, dtype=low)
        self.inside = new(inner, dtype=low)

        def parts(weight: Tensor) -> Tensor:
            return torch.zeros((kernels.cut(weight)[1], rows, d.width), device=d.device)

        self.out_parts, self.down_parts = parts(layer.out), parts(layer.down)
        self.no_parts = self.out_parts[:0]
        self.logits, self.temperature = new(vocabulary), new() + 1.0
        tiles = -(-vocabulary // kernels.VOCABULARY_TILE)
        self.statistics = new(tiles), new(tiles), new(tiles)


def _placed(moved: Sequence[tuple[NDArray[np.int64], NDArray[np.int32]]]) -> NDArray[np.int64]:
    """[3, tokens] node, page and place in the page of each token of runs that fill pages from the start."""
    nodes = np.concatenate([path for path, _ in moved])
    lengths = np.array([len(path) for path, _ in moved])
    inside = np.arange(len(nodes)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    firsts = np.cumsum([0, *(len(pages) for _, pages in moved[:-1])])
    pages = np.concatenate([pages for _, pages in moved])
    return np.stack([nodes, pages[np.repeat(firsts, lengths) + inside // PAGE], inside % PAGE])
