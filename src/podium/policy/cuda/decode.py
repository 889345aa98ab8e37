"""One token of every row on a GPU: pages of keys and values, and the step as a captured graph.

Keys and values live in pages of PAGE tokens. A row's table names the pages that hold its text; rows that continue the
same prompt name the same pages for it, so that it is stored once, whatever the number of rows. A row that joins gets
pages for all that it may write, so that a step never runs out of them, and rows change places without moving a byte.

A step is a fixed list of launches (`decode_launch.py`). It is captured once for a number of rows, and replayed: the
host then does one call instead of some hundred and fifty. `PODIUM_GRAPHS=0` turns capturing off, for debugging.
"""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from podium.core.errors import PodiumError

if TYPE_CHECKING:
    from podium.policy.decoder import Decoder

__all__ = ["Captured", "PagedCache", "PagedStep", "launches", "unusable"]

PAGE = 16
Ids = tuple[int, ...]


def unusable(decoder: Decoder) -> str | None:
    """Why these kernels cannot do this model's step; None: they can."""
    if decoder.device.type != "cuda":
        return "it is not on a GPU"
    if decoder.dtype == torch.bfloat16 and torch.cuda.get_device_capability(decoder.device) < (8, 0):
        return "this GPU does not compute in bfloat16: use dtype=float32"
    if not decoder.plain:
        return "adapters take part in its layers"
    if decoder.head_size not in (16, 32, 64, 128, 256):
        return f"its heads have {decoder.head_size} numbers"
    try:
        import_module("triton")
    except ImportError:
        return "Triton is not installed"
    return None


def launches(device: torch.device) -> Any:
    """The functions that do a step: kernels on a GPU, plain torch elsewhere."""
    name = "decode_launch" if device.type == "cuda" else "decode_reference"
    return import_module(f"podium.policy.cuda.{name}")


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
    """The full pages of a prompt and how many rows name them."""

    pages: list[int]
    rows: int = 0


class PagedCache:
    """Pages of keys and values, and which of them each row has.

    There is room for `contexts` different prompts of up to `prompt` tokens, and for `rows` rows that write up to
    `written` each, and `spare` pages more. Page 0 belongs to nobody: rows without a completion read and write there.
    """

    def __init__(self, decoder: Decoder, rows: int, contexts: int, prompt: int, written: int, spare: int = 0) -> None:
        self.decoder, self.kernels = decoder, launches(decoder.device)
        self.rows, self.contexts, self.prompt, self.written = rows, contexts, prompt, written
        self.allowed = written  # what rows that join now may write
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
        self._free = list(range(self.count - 1, 0, -1))
        self._own: list[list[int]] = [[] for _ in range(rows)]
        self._prompt: list[Ids | None] = [None] * rows
        self._shared: dict[Ids, _Shared] = {}
        self._work: Work | None = None

    @staticmethod
    def pages_for(rows: int, contexts: int, prompt: int, written: int) -> int:
        return 1 + contexts * (prompt // PAGE) + rows * (-(-written // PAGE) + 1)

    @property
    def work(self) -> Work:
        """What a step writes on the way."""
        if self._work is None:
            with _room(f"the logits of {self.rows} rollouts"):
                self._work = Work(self.decoder, self.table.shape[0], self.kernels)
        return self._work

    def fits(self, rows: int, contexts: int, prompt: int, written: int) -> bool:
        enough = self.pages_for(rows, contexts, prompt, written) <= self.count
        return enough and rows <= self.rows and -(-(prompt + written) // PAGE) + 1 <= self.most

    def larger(self, rows: int = 0, contexts: int = 0, prompt: int = 0, written: int = 0, spare: int = 0) -> PagedCache:
        """A cache at least as large in every respect, and by so many pages, that holds the same."""
        rows, contexts = max(rows, self.rows), max(contexts, self.contexts)
        prompt, written = max(prompt, self.prompt), max(written, self.written)
        lacking = max(0, self.count + spare - self.pages_for(rows, contexts, prompt, written))
        new = PagedCache(self.decoder, rows, contexts, prompt, written, lacking)
        new.allowed = self.allowed
        new.pool[:, :, : self.count] = self.pool
        new.table[: self.table.shape[0], : self.most] = self.table
        new._free = list(range(new.count - 1, self.count - 1, -1)) + self._free
        new._own[: self.rows], new._prompt[: self.rows] = self._own, self._prompt
        new._shared = self._shared
        return new

    def lacking(self, nodes: Sequence[NDArray[np.int64]], texts: Sequence[Ids]) -> int:
        """How many pages there are too few for texts to be admitted."""
        own = sum(self._needed(path) for path in nodes)
        new = {text: len(path) // PAGE for path, text in zip(nodes, texts, strict=True) if text not in self._shared}
        return max(0, own + sum(new.values()) - len(self._free))

    def _needed(self, path: NDArray[np.int64]) -> int:
        """Pages of its own for a row that begins with these tokens."""
        return -(-(len(path) + self.allowed) // PAGE) - len(path) // PAGE

    def vacate(self, rows: Sequence[int]) -> None:
        """Take the pages of rows away."""
        used = [row for row in rows if self._own[row]]
        for row in used:
            self._free += self._own[row]
            self._own[row] = []
            text, self._prompt[row] = self._prompt[row], None
            if text is not None:
                shared = self._shared[text]
                shared.rows -= 1
                if not shared.rows:
                    self._free += shared.pages
                    del self._shared[text]
        if used:
            self.table.index_fill_(0, _sent(used, self.device), 0)

    def admit(
        self,
        rows: Sequence[int],
        keys: Tensor | None,
        values: Tensor | None,
        nodes: Sequence[NDArray[np.int64]],
        texts: Sequence[Ids],
    ) -> None:
        """Let rows begin with texts, whose tokens are `nodes` of keys and values [layers, nodes, kv, size], if any."""
        table = np.zeros((len(rows), self.most), dtype=np.int32)
        moved: list[tuple[NDArray[np.int64], list[int]]] = []  # stretches of nodes and the pages they begin and fill
        for number, (row, path, text) in enumerate(zip(rows, nodes, texts, strict=True)):
            full = len(path) // PAGE
            if full and text not in self._shared:
                self._shared[text] = _Shared([self._free.pop() for _ in range(full)])
                moved.append((path[: full * PAGE], self._shared[text].pages))
            pages: list[int] = []
            if full:
                self._shared[text].rows += 1
                self._prompt[row] = text
                pages += self._shared[text].pages
            self._own[row] = [self._free.pop() for _ in range(self._needed(path))]
            if len(path) > full * PAGE:
                moved.append((path[full * PAGE :], self._own[row][:1]))
            pages += self._own[row]
            table[number, : len(pages)] = pages
        self.table.index_copy_(0, _sent(rows, self.device), _sent(table, self.device))
        if moved and keys is not None and values is not None:
            node, page, place = _sent(_placed(moved), self.device)
            for kind, given in enumerate((keys, values)):
                self.pool[:, kind][:, page, :, place] = given.index_select(1, node).transpose(0, 1).to(self.pool.dtype)

    def read(self, row: int, length: int) -> tuple[Tensor, Tensor]:
        """Keys and values [layers, length, kv, size] of the first tokens of a row."""
        at = torch.arange(length, device=self.device)
        page = self.table[row, at // PAGE].long()
        keys, values = (self.pool[:, kind][:, page, :, at % PAGE].transpose(0, 1).contiguous() for kind in (0, 1))
        return keys, values

    def move(self, source: Sequence[int], target: Sequence[int]) -> None:
        """Put rows in the places of others, which have no pages."""
        a, b = _sent(source, self.device), _sent(target, self.device)
        self.table.index_copy_(0, b, self.table.index_select(0, a))
        self.table.index_fill_(0, a, 0)
        for old, new in zip(source, target, strict=True):
            self._own[new], self._own[old] = self._own[old], []
            self._prompt[new], self._prompt[old] = self._prompt[old], None

    def step_length(self, length: int) -> int:
        """For how many keys a step is laid out, so that no row has more than `length`."""
        chunks = -(-length // self.kernels.CHUNK)
        return int(self.kernels.CHUNK * (1 << (chunks - 1).bit_length()))


class Work:
    """What a step of so many rows writes on the way, and its logits."""

    def __init__(self, decoder: Decoder, rows: int, kernels: Any) -> None:
        d, low = decoder, decoder.dtype
        inner = d.layers[0].gate_up.weight.shape[0] // 2
        vocabulary = d.head.weight.shape[0]

        def new(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros((rows, *shape), dtype=dtype, device=d.device)

        self.token, self.position = new(dtype=torch.long), new(dtype=torch.long)
        self.x, self.y = new(d.width), new(d.width, dtype=low)
        self.q, self.attended = new(d.heads * d.head_size, dtype=low), new(d.heads * d.head_size, dtype=low)
        self.inside = new(inner, dtype=low)

        def parts(weight: Tensor) -> Tensor:
            return torch.zeros((kernels.cut(weight)[1], rows, d.width), device=d.device)

        layer: Any = d.layers[0]
        self.out_parts, self.down_parts = parts(layer.out.weight), parts(layer.down.weight)
        self.no_parts = self.out_parts[:0]
        self.logits, self.temperature = new(vocabulary), new() + 1.0
        tiles = -(-vocabulary // kernels.VOCABULARY_TILE)
        self.statistics = new(tiles), new(tiles), new(tiles)


class Captured:
    """A list of launches: called once as it is, then captured into a graph that is replayed."""

    def __init__(self, launch: Callable[[], None], device: torch.device) -> None:
        self.launch, self.calls = launch, 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.able = device.type == "cuda" and os.environ.get("PODIUM_GRAPHS") != "0"

    def __call__(self) -> None:
        self.calls += 1
        if self.able and self.calls == 2:  # the first call has compiled the kernels
            self._capture()
        if self.graph is not None:
            self.graph.replay()
        else:
            self.launch()

    def _capture(self) -> None:
        graph = torch.cuda.CUDAGraph()
        collects = gc.isenabled()
        gc.disable()  # freeing some other graph would end the capture
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self.launch()
        except RuntimeError as error:
            self.able = False
            reason = str(error).splitlines()[0]
            warnings.warn(f"Sampling goes on without a captured graph, more slowly: {reason}", stacklevel=2)
            return
        finally:
            if collects:
                gc.enable()
        self.graph = graph


class PagedStep:
    """The step of the first `rows` rows of a cache, when none has more than `length` tokens."""

    def __init__(self, decoder: Decoder, cache: PagedCache, rows: int, length: int) -> None:
        weights = decoder.weights
        assert weights is not None
        self.decoder, self.cache, self.rows, self.weights = decoder, cache, rows, weights
        self.kernels, self.work = cache.kernels, cache.work
        self.chunks = length // self.kernels.CHUNK
        self.rope = decoder.rope_tables(cache.most * PAGE)
        d = decoder
        self.parts = self.kernels.parts(rows, d.heads, d.kv_heads, d.head_size, self.chunks, d.device)
        self._alone = Captured(self._forward, d.device)

    def launch(self, token: Tensor, position: Tensor, temperature: Tensor) -> None:
        """Logits and their statistics after token[i] at position[i] of row i; its keys and values are written."""
        do, n, w, eps = self.kernels, self.rows, self.work, self.decoder.eps
        do.embed(n, token, self.weights.embedding, w.x)
        parts = w.no_parts
        for pool, layer in zip(self.cache.pool, self.weights.layers, strict=True):
            do.settle(n, w.x, parts, layer.norm_in, w.y, eps)
            head_norms = None if layer.q_norm is None else (layer.q_norm, layer.k_norm)
            at = (self.rope, position, self.cache.table, pool)
            do.project(n, w.y, layer.qkv, layer.qkv_bias, head_norms, *at, w.q, eps)
            do.attend(n, w.q, pool, self.cache.table, position, w.attended, self.parts, self.chunks)
            do.product(n, w.attended, layer.out, layer.out_bias, w.out_parts)
            do.settle(n, w.x, w.out_parts, layer.norm_out, w.y, eps)
            do.gate(n, w.y, layer.gate_up, layer.gate_up_bias, w.inside)
            do.product(n, w.inside, layer.down, layer.down_bias, w.down_parts)
            parts = w.down_parts
        do.settle(n, w.x, parts, self.weights.norm, w.y, eps)
        head = self.weights.head, self.weights.head_bias
        do.score(n, w.y, *head, temperature, w.logits, w.statistics)

    def _forward(self) -> None:
        self.launch(self.work.token, self.work.position, self.work.temperature)

    def __call__(self, ids: Tensor, position: Tensor) -> Tensor:
        """Logits [rows, vocabulary], which the next step writes over."""
        self.work.token[: self.rows] = ids
        self.work.position[: self.rows] = position
        self._alone()
        return self.work.logits[: self.rows]


def _placed(moved: Sequence[tuple[NDArray[np.int64], list[int]]]) -> NDArray[np.int64]:
    """[3, tokens] the node, page and place in it of each token of stretches that begin and fill pages."""
    nodes = np.concatenate([path for path, _ in moved])
    lengths = np.array([len(path) for path, _ in moved])
    inside = np.arange(len(nodes)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    firsts = np.cumsum([0, *(len(pages) for _, pages in moved[:-1])])
    pages = np.array([page for _, pages in moved for page in pages])
    return np.stack([nodes, pages[np.repeat(firsts, lengths) + inside // PAGE], inside % PAGE])


def _sent(numbers: Sequence[int] | NDArray[Any], device: torch.device) -> Tensor:
    """A tensor on the device; the host does not wait for what the device is doing."""
    x = torch.as_tensor(np.asarray(numbers))
    return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else x
