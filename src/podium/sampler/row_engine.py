"""Engines: the KV cache of the rows of a running batch, and the decode step over all of them.

There are four: `StaticCacheEngine` (CPU) and `PagedEngine` (GPU) run the policy's decoder; `HFBatchedEngine` and
`UncachedEngine` run the forward pass of a model of any other architecture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from podium.core.errors import PodiumError
from podium.policy.model.device import free_bytes

__all__ = ["RowEngine", "RowsDoNotFit", "HFEngine", "Prompt", "Stats", "SteppedEngine", "memory_for"]

Ids = tuple[int, ...]
MEMORY = 2 << 30  # bytes of the KV cache on a CPU


class RowsDoNotFit(PodiumError):
    """The KV cache of these rows does not fit in the GPU's memory. If there were several, the engine takes fewer from
    now on."""


@dataclass
class Stats:
    """What the sampler has done so far."""

    encoded: int = 0  # context tokens that went through the model, each shared prefix once
    reused: int = 0  # context tokens whose keys and values were still cached
    sampled: int = 0  # tokens of completions
    steps: int = 0  # decode steps


@dataclass(frozen=True)
class Prompt:
    """A text to be continued. All but its last token is encoded now, or is read when the text gets a row."""

    text: Ids
    keys: Tensor | None = None  # [layers, nodes, key-value heads, head size], shared by several prompts
    values: Tensor | None = None
    # [tokens] the nodes of its first tokens among `keys` and `values`; never that of its last token.
    nodes: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def unread(self) -> int:
        """How many tokens are still to be read, not counting the last one, which the first decode step reads."""
        return len(self.text) - 1 - len(self.nodes)


class RowEngine(Protocol):
    """What the sampler needs from a model."""

    @property
    def open(self) -> bool:
        """Whether rows may join at this step."""
        ...

    @property
    def prefill_ahead(self) -> int:
        """How many context tokens to encode at once: contexts needed now, then those of queued requests."""
        ...

    @property
    def patience(self) -> int:
        """How many steps a few completions wait for others before they join; joining costs about as much as these."""
        ...

    def fits(self, rows: int, contexts: int, prompt: int, written: int) -> bool:
        """Whether this many rows fit, with this many distinct contexts and up to this many tokens each."""
        ...

    def reserve(self, rows: int, contexts: int, prompt: int, written: int, busy: bool) -> None:
        """Allocate memory for them and keep what running rows hold. Raises `RowsDoNotFit` where it is not enough."""
        ...

    def resume(self, rows: Sequence[int], texts: Sequence[Ids], limits: Sequence[int]) -> list[int]:
        """Let rows continue cached texts in place, for up to `limits` tokens each; returns the rows that can."""
        ...

    def prepare(self, texts: Sequence[Ids], later: int) -> list[Prompt]:
        """Encode texts without their last tokens, unless reading them in their rows is faster. `later` of them have no
        row yet."""
        ...

    def admit(self, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        """Start each row with a prompt."""
        ...

    def bucket(self, rows: int) -> int:
        """The size of the step that runs this many rows; results of the surplus rows are discarded."""
        ...

    def remember(self, row: int, ids: Ids) -> None:
        """Keep the keys and values of a finished row's text, for a continuation."""
        ...

    def leave(self, rows: Sequence[int]) -> None:
        """Free the rows of completions that have ended."""
        ...

    def renew(self) -> None:
        """Drop everything computed with the previous weights."""
        ...


class SteppedEngine(RowEngine, Protocol):
    """An engine whose rows are numbered without gaps and advance by one token per step."""

    def move(self, source: Sequence[int], target: Sequence[int], left: int) -> None:
        """Move rows from `source` to `target`; only the first `left` rows remain."""
        ...

    def step(self, ids: Tensor, position: Tensor, length: int) -> Tensor:
        """Logits [rows, vocabulary] after one more token in each row; no row is then longer than `length`."""
        ...


class HFEngine:
    """What engines over a Hugging Face forward pass share: no prefix is cached outside of the rows."""

    patience = 0

    def resume(self, rows: Sequence[int], texts: Sequence[Ids], limits: Sequence[int]) -> list[int]:
        return []

    def prepare(self, texts: Sequence[Ids], later: int) -> list[Prompt]:
        return [Prompt(text) for text in texts]

    def bucket(self, rows: int) -> int:
        return rows

    def remember(self, row: int, ids: Ids) -> None:
        pass

    def leave(self, rows: Sequence[int]) -> None:
        pass

    def renew(self) -> None:
        pass


def memory_for(device: torch.device, limit: int | None) -> int:
    """Bytes of the KV cache: `limit`, or by default half of the memory that is free on a GPU."""
    if limit is not None:
        return limit
    return free_bytes(device)[0] // 2 if device.type == "cuda" else MEMORY
