"""Where the rows of a running batch live: their keys and values, and the model's step over all of them.

There are four kinds: `Slots` and `Paged` work with the decoder, on a CPU and on a GPU; `Waves` and `Whole` with a model
of any other architecture.
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

__all__ = ["RowEngine", "NoRoom", "OwnPass", "Prompt", "Stats", "Stepped", "memory_for"]

Ids = tuple[int, ...]
MEMORY = 2 << 30  # bytes for keys and values on a CPU


class NoRoom(PodiumError):
    """Rows do not fit in the GPU's memory. The engine has room for fewer from now on, if they were several."""


@dataclass
class Stats:
    """What the sampler has done so far."""

    encoded: int = 0  # tokens of contexts that went through the model, each distinct beginning once
    reused: int = 0  # tokens of contexts whose keys and values were still there
    sampled: int = 0
    steps: int = 0


@dataclass(frozen=True)
class Prompt:
    """A text that is to be continued: all but its last token is encoded, or is read when it gets a row."""

    text: Ids
    keys: Tensor | None = None  # [layers, nodes, key-value heads, head size], shared by several prompts
    values: Tensor | None = None
    # Of its tokens, from the first on, at most all but its last.
    nodes: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def unread(self) -> int:
        """How many tokens are neither encoded nor the last, which the first step reads."""
        return len(self.text) - 1 - len(self.nodes)


class RowEngine(Protocol):
    """What the sampler needs of the model."""

    @property
    def open(self) -> bool:
        """Whether rows may join now."""
        ...

    @property
    def ahead(self) -> int:
        """How many tokens of contexts are encoded together with those that are waited for."""
        ...

    @property
    def patience(self) -> int:
        """For how many steps few completions wait for more before they join: that costs about as much as these."""
        ...

    def room(self, rows: int, contexts: int, prompt: int, written: int) -> bool:
        """Whether so many rows fit, of so many different contexts, with prompts and what is written of such lengths."""
        ...

    def reserve(self, rows: int, contexts: int, prompt: int, written: int, busy: bool) -> None:
        """Make room for them; what rows under way hold is kept. Raises `NoRoom` where the memory does not hold them."""
        ...

    def resume(self, rows: Sequence[int], texts: Sequence[Ids], limits: Sequence[int]) -> list[int]:
        """Let rows go on where their texts were written so far, for up to so many tokens; returns those that can."""
        ...

    def prepare(self, texts: Sequence[Ids], later: int) -> list[Prompt]:
        """Encode texts but for their last tokens, unless reading them is better; so many of them get a row later."""
        ...

    def admit(self, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        """Let each row begin with a prompt."""
        ...

    def bucket(self, rows: int) -> int:
        """How many rows a step has when this many are under way; the others' results are not used."""
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


class Stepped(RowEngine, Protocol):
    """Whose rows are numbered without gaps, and whose step is one token of each."""

    def move(self, source: Sequence[int], target: Sequence[int], left: int) -> None:
        """Put rows in the place of others; only the first `left` rows go on."""
        ...

    def step(self, ids: Tensor, position: Tensor, length: int) -> Tensor:
        """Logits [rows, vocabulary] after one more token in each row, which then have up to `length`."""
        ...


class OwnPass:
    """What is the same for all rows of a model's own forward pass: nothing is known of a text but in its row."""

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


def memory_for(device: torch.device, given: int | None) -> int:
    """Bytes for keys and values: what was given, or half of what is free on a GPU."""
    if given is not None:
        return given
    return free_bytes(device)[0] // 2 if device.type == "cuda" else MEMORY
