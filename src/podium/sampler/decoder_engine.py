"""What the engines over the decoder share, on a CPU and on a GPU.

Contexts are encoded together (prefill), texts that may be continued are kept, and where rows do not fit in memory the
engine takes fewer from then on.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from podium.core.errors import PodiumError
from podium.policy.forward.decoder import Decoder
from podium.policy.forward.pack import pack
from podium.policy.forward.step import ROUND
from podium.policy.model.device import GIB, out_of_memory
from podium.sampler.kept_prefixes import CachedKV, KeptPrefixes
from podium.sampler.row_engine import Prompt, RowsDoNotFit, Stats, memory_for

__all__ = ["DecoderEngine"]

Ids = tuple[int, ...]


class DecoderEngine(ABC):
    """Prefill, kept prefixes and the memory budget; subclasses hold the rows."""

    def __init__(self, decoder: Decoder, stats: Stats, memory: int | None = None) -> None:
        self.decoder, self.stats = decoder, stats
        self.memory = memory = memory_for(decoder.device, memory)
        shape = len(decoder.layers) * decoder.kv_heads * decoder.head_size
        self.token_bytes = 2 * shape * torch.empty(0, dtype=decoder.dtype).element_size()
        self.prefixes = KeptPrefixes(memory // 4 // self.token_bytes)
        self._layout = decoder.layout  # of the weights for which steps were prepared
        self.open = True

    @abstractmethod
    def size(self, rows: int, contexts: int, prompt: int, written: int) -> int:
        """Bytes of the KV cache of so many rows."""

    @abstractmethod
    def _reserve(self, rows: int, contexts: int, prompt: int, written: int, busy: bool) -> None: ...

    @abstractmethod
    def _void(self) -> None:
        """Drop the steps that were prepared."""

    def reserve(self, rows: int, contexts: int, prompt: int, written: int, busy: bool) -> None:
        try:
            self._reserve(rows, contexts, prompt, written, busy)
        except (RuntimeError, PodiumError) as error:
            if not (out_of_memory(error) or out_of_memory(error.__cause__)):
                raise
            raise self._fewer(rows, contexts, prompt, written) from error

    def _fewer(self, rows: int, contexts: int, prompt: int, written: int) -> RowsDoNotFit:
        """Halve the memory budget and warn about it; returns the error to raise, which the user sees if even one row
        does not fit."""
        torch.cuda.empty_cache()
        size = self.size(rows, contexts, prompt, written)
        self.memory = min(self.memory, size) // 2
        who = "a rollout" if rows == 1 else f"{rows} rollouts"
        what = f"the keys and values of {who} of up to {prompt + written} tokens, {size / GIB:.1f} GiB"
        if rows > 1:
            warnings.warn(f"The GPU has no room for {what}: from now on fewer are sampled at once.", stacklevel=4)
        return RowsDoNotFit(
            f"The GPU has no room for {what}: use a smaller max_tokens, a smaller micro_tokens, which leaves more room "
            "for sampling, or a smaller model."
        )

    def prepare(self, texts: Sequence[Ids], later: int) -> list[Prompt]:
        return self.encoded(self.recalled(texts))

    def recalled(self, texts: Sequence[Ids]) -> list[Prompt]:
        """Texts with the keys and values of their cached prefixes."""
        parts: list[tuple[Tensor, Tensor]] = []
        begin: dict[Ids, int] = {}
        total = 0
        cached: list[tuple[int, int]] = []  # for each text, where its prefix begins among them and its length
        for text in texts:
            match = self.prefixes.find(text[:-1])
            if match is None:
                cached.append((0, 0))
                continue
            kept, held, shared = match
            if kept not in begin:
                begin[kept] = total
                total += len(kept)
                parts.append(self._recall(held, kept))
            cached.append((begin[kept], shared))
        keys, values = (torch.cat([p[i] for p in parts], 1) for i in (0, 1)) if parts else (None, None)
        self.stats.reused += sum(shared for _, shared in cached)
        nodes = [np.arange(b, b + shared, dtype=np.int64) for b, shared in cached]
        return [Prompt(text, keys, values, path) for text, path in zip(texts, nodes, strict=True)]

    def encoded(self, prompts: Sequence[Prompt]) -> list[Prompt]:
        """Prompts encoded up to their last tokens; shared prefixes are encoded once."""
        try:
            return self._encoded(prompts)
        except RuntimeError as error:
            if len(prompts) == 1 or not out_of_memory(error):
                raise
        torch.cuda.empty_cache()  # outside the handler, which still refers to the tensors that did not fit
        half = len(prompts) // 2
        return [*self.encoded(prompts[:half]), *self.encoded(prompts[half:])]

    def _encoded(self, prompts: Sequence[Prompt]) -> list[Prompt]:
        fresh = [p for p in prompts if p.unread]
        if not fresh:
            return list(prompts)
        keys, values = fresh[0].keys, fresh[0].values
        cached = [(int(p.nodes[0]) if len(p.nodes) else 0, len(p.nodes)) for p in fresh]
        total = 0 if keys is None else keys.shape[1]
        least = self.decoder.least if keys is None else 1
        packed = pack([p.text[:-1] for p in fresh], self.decoder.device, cached, total, ROUND, least)
        past = None if keys is None or values is None else list(zip(keys, values, strict=True))
        _, kept = self.decoder.encode(packed, past, keep=True)
        keys, values = torch.stack([k for k, _ in kept]), torch.stack([v for _, v in kept])
        self.stats.encoded += packed.count
        paths = {p.text: path for p, path in zip(fresh, packed.nodes, strict=True)}
        return [Prompt(p.text, keys, values, paths.get(p.text, p.nodes)) for p in prompts]

    def _recall(self, held: CachedKV, ids: Ids) -> tuple[Tensor, Tensor]:
        """The keys and values of a kept text."""
        assert not isinstance(held, int)
        return held

    def renew(self) -> None:
        self.prefixes.clear()
        self.decoder.refresh()
        if self._layout != self.decoder.layout:
            self._layout = self.decoder.layout
            self._void()
