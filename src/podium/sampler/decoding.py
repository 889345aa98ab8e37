"""What rows over the decoder's own weights share, on a CPU and on a GPU.

Contexts are encoded together, texts that may be continued are remembered, and where the memory does not hold rows there
is room for fewer from then on.
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
from podium.sampler.kept_prefixes import Held, Prefixes
from podium.sampler.row_engine import NoRoom, Prompt, Stats, memory_for

__all__ = ["Decoding"]

Ids = tuple[int, ...]


class Decoding(ABC):
    """An engine's contexts and its memory; where rows live is up to those that inherit from it."""

    def __init__(self, decoder: Decoder, stats: Stats, memory: int | None = None) -> None:
        self.decoder, self.stats = decoder, stats
        self.memory = memory = memory_for(decoder.device, memory)
        shape = len(decoder.layers) * decoder.kv_heads * decoder.head_size
        self.token_bytes = 2 * shape * torch.empty(0, dtype=decoder.dtype).element_size()
        self.prefixes = Prefixes(memory // 4 // self.token_bytes)
        self._layout = decoder.layout  # of the weights for which steps were laid out
        self.open = True

    @abstractmethod
    def size(self, rows: int, contexts: int, prompt: int, written: int) -> int:
        """Bytes of the keys and values of so many rows."""

    @abstractmethod
    def _reserve(self, rows: int, contexts: int, prompt: int, written: int, busy: bool) -> None: ...

    @abstractmethod
    def _void(self) -> None:
        """Forget the steps that were laid out."""

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

    def _recall(self, held: Held, ids: Ids) -> tuple[Tensor, Tensor]:
        """The keys and values of a text that is remembered."""
        assert not isinstance(held, int)
        return held

    def renew(self) -> None:
        self.prefixes.clear()
        self.decoder.refresh()
        if self._layout != self.decoder.layout:
            self._layout = self.decoder.layout
            self._void()
