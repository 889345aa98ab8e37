"""Where the rows of a running batch live: their keys and values, and the model's step over all of them.

Rows are numbered from 0 without gaps. `Slots` works with the decoder: rows join and leave at any time. `Waves` works
with any Hugging Face model through its own forward pass: rows leave at any time and join when all others have left.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from podium.core.errors import PodiumError
from podium.policy.decoder import Decoder
from podium.policy.native.step import NativeStep
from podium.policy.pack import pack
from podium.policy.plain import padded
from podium.policy.policy import Policy
from podium.policy.step import ROUND, Step
from podium.sampler.prefixes import Prefixes

__all__ = ["Engine", "Prompt", "Slots", "Stats", "Waves"]

Ids = tuple[int, ...]
# A step has at least this many rows: with fewer, matrix products sum in another order, and the last bits would depend
# on what else is being sampled.
LEAST = 16
GRAIN = 8  # the number of rows of a step is rounded up to this, so that a step is laid out for few different numbers
STEPS = 256  # steps of different numbers of rows and keys that are kept ready
MEMORY = 2 << 30  # bytes for keys and values on a CPU


@dataclass
class Stats:
    """What the sampler has done so far."""

    encoded: int = 0  # tokens of contexts that went through the model, each distinct beginning once
    reused: int = 0  # tokens of contexts whose keys and values were still there
    sampled: int = 0
    steps: int = 0


@dataclass(frozen=True)
class Prompt:
    """A text ready to be continued: all but its last token is encoded."""

    text: Ids
    keys: Tensor | None = None  # [layers, nodes, key-value heads, head size], shared by several prompts
    values: Tensor | None = None
    nodes: NDArray[np.int64] | None = None  # the text's nodes, without its last token


class Engine(Protocol):
    """What the sampler needs of the model."""

    @property
    def open(self) -> bool:
        """Whether rows may join now."""
        ...

    @property
    def ahead(self) -> int:
        """How many tokens of contexts are encoded together with those that are waited for."""
        ...

    def room(self, rows: int, contexts: int, prompt: int, written: int) -> bool:
        """Whether so many rows fit, of so many different contexts, with prompts and what is written of such lengths."""
        ...

    def reserve(self, rows: int, contexts: int, prompt: int, written: int, busy: bool) -> None:
        """Make room for them; what rows under way hold is kept."""
        ...

    def prepare(self, texts: Sequence[Ids]) -> list[Prompt]:
        """Encode texts but for their last tokens."""
        ...

    def admit(self, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        """Let each row begin with a prompt."""
        ...

    def bucket(self, rows: int) -> int:
        """How many rows a step has when this many are under way; the others' results are not used."""
        ...

    def move(self, source: Sequence[int], target: Sequence[int], left: int) -> None:
        """Put rows in the place of others; only the first `left` rows go on."""
        ...

    def step(self, ids: Tensor, position: Tensor, length: int) -> Tensor:
        """Logits [rows, vocabulary] after one more token in each row, which then have up to `length`."""
        ...

    def remember(self, row: int, ids: Ids) -> None:
        """Keep what is known of the text in a row that ends, for a continuation."""
        ...

    def leave(self, rows: Sequence[int]) -> None:
        """The completions in these rows have ended."""
        ...

    def renew(self) -> None:
        """The weights have changed."""
        ...


class Slots:
    """Rows of a static cache, over the decoder's own weights."""

    ahead = 4096

    def __init__(self, decoder: Decoder, stats: Stats, memory: int | None = None) -> None:
        self.decoder, self.stats = decoder, stats
        device = decoder.device
        if memory is None:
            memory = torch.cuda.mem_get_info(device)[0] // 2 if device.type == "cuda" else MEMORY
        self.memory = memory
        shape = len(decoder.layers) * decoder.kv_heads * decoder.head_size
        self.token_bytes = 2 * shape * torch.empty(0, dtype=decoder.dtype).element_size()
        self.prefixes = Prefixes(memory // 4 // self.token_bytes)
        self.cache = decoder.cache(0, 0, 0)
        self._steps: dict[tuple[int, int], Step | NativeStep] = {}
        self._layout = decoder.layout  # of the weights for which they were made
        self.open = True

    def limit(self, length: int) -> int:
        """How many rows of this length the memory allows."""
        return max(1, self.memory // (self.token_bytes * (-(-max(length, 1) // 64) * 64)))

    def room(self, rows: int, contexts: int, prompt: int, written: int) -> bool:
        return rows <= self.limit(prompt + written)

    def reserve(self, rows: int, contexts: int, prompt: int, written: int, busy: bool) -> None:
        rows, old = self.bucket(rows), self.cache
        if old.fits(rows, prompt, written):
            return
        if busy and rows > old.rows:  # work comes in small pieces: grow by more than asked
            rows = max(rows, self.bucket(min(2 * old.rows, self.limit(prompt + written))))
        self.cache = old.larger(rows, prompt, written) if busy else self.decoder.cache(rows, prompt, written)
        self._void()

    def prepare(self, texts: Sequence[Ids]) -> list[Prompt]:
        """Texts that begin alike, or like one that is remembered, share what they have in common."""
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
                parts.append(held)
            given.append((begin[name], shared))
        keys, values = (torch.cat([p[i] for p in parts], 1) for i in (0, 1)) if parts else (None, None)
        nodes = [np.arange(b, b + shared, dtype=np.int64) for b, shared in given]
        fresh = [i for i, text in enumerate(texts) if given[i][1] < len(text) - 1]
        if fresh:
            known = [given[i] for i in fresh]
            least = self.decoder.least if keys is None else 1
            packed = pack([texts[i][:-1] for i in fresh], self.decoder.device, known, total, ROUND, least)
            past = None if keys is None or values is None else list(zip(keys, values, strict=True))
            _, kept = self.decoder.encode(packed, past, keep=True)
            keys, values = torch.stack([k for k, _ in kept]), torch.stack([v for _, v in kept])
            for i, path in zip(fresh, packed.nodes, strict=True):
                nodes[i] = path
            self.stats.encoded += packed.count
        self.stats.reused += sum(shared for _, shared in given)
        return [Prompt(text, keys, values, path) for text, path in zip(texts, nodes, strict=True)]

    def admit(self, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        self.cache.vacate(rows)
        blocks: dict[int, list[int]] = {}
        for i, prompt in enumerate(prompts):
            if len(prompt.text) > 1:
                blocks.setdefault(id(prompt.keys), []).append(i)
        for members in blocks.values():
            keys, values = prompts[members[0]].keys, prompts[members[0]].values
            assert keys is not None
            assert values is not None
            chosen = [prompts[i] for i in members]
            nodes = [p.nodes for p in chosen if p.nodes is not None]
            self.cache.admit([rows[i] for i in members], keys, values, nodes, [p.text for p in chosen])

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
        if self.prefixes.wants(ids):
            self.prefixes.add(ids, *self.cache.read(row, len(ids)))

    def leave(self, rows: Sequence[int]) -> None:
        pass

    def renew(self) -> None:
        self.prefixes.clear()
        self.decoder.refresh()
        if self._layout != self.decoder.layout:
            self._layout = self.decoder.layout
            self._void()

    def _void(self) -> None:
        """Forget the steps that were laid out."""
        self._steps.clear()


class Waves:
    """Rows of a Hugging Face cache, padded on the left."""

    ahead = 4096

    def __init__(self, policy: Policy, stats: Stats) -> None:
        self.policy, self.stats = policy, stats
        self.model: Any = policy.model
        self.positions = "position_ids" in inspect.signature(self.model.forward).parameters
        self._prompts: list[Prompt] = []
        self._cache: Any = None
        self._mask = torch.zeros(0)
        self.open = True

    def room(self, rows: int, contexts: int, prompt: int, written: int) -> bool:
        return True

    def reserve(self, rows: int, contexts: int, prompt: int, written: int, busy: bool) -> None:
        pass

    def prepare(self, texts: Sequence[Ids]) -> list[Prompt]:
        return [Prompt(text) for text in texts]

    def admit(self, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        self._prompts, self.open = list(prompts), False

    def bucket(self, rows: int) -> int:
        return rows

    def move(self, source: Sequence[int], target: Sequence[int], left: int) -> None:
        index = torch.arange(self._mask.shape[0], device=self.policy.device)
        index[list(target)] = index[list(source)]
        self._select(index[:left])
        self.open = left == 0

    def _select(self, index: Tensor) -> None:
        self._mask = self._mask.index_select(0, index)
        self._cache.batch_select_indices(index)

    def step(self, ids: Tensor, position: Tensor, length: int) -> Tensor:
        if self._prompts:
            return self._begin()
        self._mask = torch.cat([self._mask, torch.ones_like(self._mask[:, :1])], 1)
        return self._forward(ids[:, None], position[:, None])

    def _begin(self) -> Tensor:
        """Encode the contexts of a wave, each once, and give every completion its own row."""
        distinct = {p.text: n for n, p in enumerate({p.text: p for p in self._prompts}.values())}
        ids, self._mask = padded(list(distinct), self.policy.device, left=True)
        self.stats.encoded += int(self._mask.sum())
        position = (self._mask.cumsum(1) - 1).clamp(min=0)
        self._cache = None
        logits = self._forward(ids, position)
        index = torch.tensor([distinct[p.text] for p in self._prompts], device=self.policy.device)
        self._prompts = []
        self._select(index)
        return logits.index_select(0, index)

    def _forward(self, ids: Tensor, position: Tensor) -> Tensor:
        places = {"position_ids": position} if self.positions else {}
        out = self.model(
            input_ids=ids, attention_mask=self._mask, past_key_values=self._cache, use_cache=True, **places
        )
        self._cache = getattr(out, "past_key_values", None)
        if self._cache is None:
            raise PodiumError(f"{self.policy.name} keeps no keys and values between tokens: it cannot be sampled from.")
        logits: Tensor = out.logits[:, -1]
        return logits

    def remember(self, row: int, ids: Ids) -> None:
        pass

    def leave(self, rows: Sequence[int]) -> None:
        pass

    def renew(self) -> None:
        pass
