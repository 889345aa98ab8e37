"""The decode step on a GPU, one token of every row, as a CUDA graph.

Each row reads a token of a text whose keys and values lie in pages (`pages.py`). A step is a fixed list of launches
(`decode_launch.py`). It is captured once for a number of rows and replayed: the host then makes one call instead of
some two hundred. `PODIUM_GRAPHS=0` turns capturing off, for debugging.
"""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from podium.policy.cuda.pages import PAGE, PagedCache, Work

if TYPE_CHECKING:
    from podium.policy.forward.decoder import Decoder

__all__ = ["PAGE", "Captured", "PagedCache", "PagedRead", "PagedStep", "unusable"]


def unusable(decoder: Decoder) -> str | None:
    """Why these kernels cannot run this model; None: they can."""
    if decoder.device.type != "cuda":
        return "it is not on a GPU"
    if decoder.dtype == torch.bfloat16 and torch.cuda.get_device_capability(decoder.device) < (8, 0):
        return "this GPU does not compute in bfloat16: use dtype=float32"
    if not (decoder.plain or decoder.folds):
        return "its layers have adapters"
    if decoder.head_size not in (16, 32, 64, 128, 256):
        return f"its heads are of size {decoder.head_size}"
    try:
        import_module("triton")
    except ImportError:
        return "Triton is not installed"
    return None


class Captured:
    """A list of launches that runs eagerly once, and is then captured into a CUDA graph and replayed.

    The launches are passed with every call and not stored, because their owner stores this object.
    """

    def __init__(self, device: torch.device, able: bool = True) -> None:
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.able = able and device.type == "cuda" and os.environ.get("PODIUM_GRAPHS") != "0"

    def __call__(self, launch: Callable[[], None]) -> None:
        self.calls += 1
        if self.able and self.calls == 2:  # the first call has compiled the kernels
            self._capture(launch)
        if self.graph is not None:
            self.graph.replay()
        else:
            launch()

    def _capture(self, launch: Callable[[], None]) -> None:
        graph = torch.cuda.CUDAGraph()
        collects = gc.isenabled()
        gc.disable()  # freeing another graph would abort the capture
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                launch()
        except RuntimeError as error:
            self.able = False
            reason = str(error).splitlines()[0]
            warnings.warn(f"Sampling goes on without a captured graph, more slowly: {reason}", stacklevel=2)
            return
        finally:
            if collects:
                gc.enable()
        self.graph = graph


class _Layers:
    """The layers over `rows` tokens of a cache, if none of their texts is longer than `length`."""

    def __init__(self, decoder: Decoder, cache: PagedCache, rows: int, length: int, work: Work, table: Tensor) -> None:
        weights = decoder.weights
        assert weights is not None
        self.decoder, self.cache, self.rows, self.weights = decoder, cache, rows, weights
        self.kernels, self.work, self.table = cache.kernels, work, table
        self.chunks = length // self.kernels.CHUNK
        self.rope = decoder.rope_tables(cache.most * PAGE)
        d = decoder
        self.parts = self.kernels.parts(rows, d.heads, d.kv_heads, d.head_size, self.chunks, d.device)

    def through(self, token: Tensor, position: Tensor, whole: bool = True) -> None:
        """Write the keys and values of token[i] at position[i] of the text on the pages table[i].

        In each layer, those of all rows are written before any row attends to them. If not `whole`, stop when those of
        the last layer are written.
        """
        do, n, w, eps = self.kernels, self.rows, self.work, self.decoder.eps
        do.divide(n, position, self.parts, self.chunks)
        do.embed(n, token, self.weights.embedding, w.x)
        parts, last = w.no_parts, self.weights.layers[-1]
        for pool, layer in zip(self.cache.pool, self.weights.layers, strict=True):
            do.settle(n, w.x, parts, layer.norm_in, w.y, eps)
            head_norms = None if layer.q_norm is None else (layer.q_norm, layer.k_norm)
            at = (self.rope, position, self.table, pool)
            do.project(n, w.y, layer.qkv, layer.qkv_bias, head_norms, *at, w.q, eps)
            if layer is last and not whole:
                return
            do.attend(n, w.q, pool, self.table, w.attended, self.parts, self.chunks)
            do.product(n, w.attended, layer.out, layer.out_bias, w.out_parts)
            do.settle(n, w.x, w.out_parts, layer.norm_out, w.y, eps)
            do.gate(n, w.y, layer.gate_up, layer.gate_up_bias, w.inside)
            do.product(n, w.inside, layer.down, layer.down_bias, w.down_parts)
            parts = w.down_parts
        do.settle(n, w.x, parts, self.weights.norm, w.y, eps)


class PagedStep(_Layers):
    """The decode step of the first `rows` lanes of a cache: the next token of each, and the logits after it."""

    def __init__(self, decoder: Decoder, cache: PagedCache, rows: int, length: int) -> None:
        super().__init__(decoder, cache, rows, length, cache.work, cache.front)

    def launch(self, token: Tensor, position: Tensor, temperature: Tensor) -> None:
        """Logits and their statistics after token[i] at position[i] of lane i; its keys and values are written."""
        self.through(token, position)
        w, head = self.work, (self.weights.head, self.weights.head_bias)
        self.kernels.score(self.rows, w.y, *head, temperature, w.logits, w.statistics)


class PagedRead(_Layers):
    """Prefill in captured steps: reads as many tokens at a time as it has rows, of one text or of several."""

    def __init__(self, decoder: Decoder, cache: PagedCache, rows: int, length: int) -> None:
        work = Work(decoder, rows, cache.kernels, logits=False)
        super().__init__(decoder, cache, rows, length, work, cache.table.new_zeros((rows, cache.most)))
        self._captured = Captured(decoder.device)

    def _forward(self) -> None:
        self.through(self.work.token, self.work.position, whole=False)

    def __call__(self, ids: Tensor, position: Tensor, pages: Tensor) -> None:
        """Write keys and values of ids[i] at position[i] of the text on pages[i]. Everything before it must be written
        already, or be among these rows."""
        self.work.token.copy_(ids)
        self.work.position.copy_(position)
        self.table.copy_(pages)
        self._captured(self._forward)
