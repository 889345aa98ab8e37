"""What a sampler is asked for and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from podium.core.errors import within
from podium.core.schedule import Number
from podium.core.value import Value

__all__ = ["Completion", "Generate", "Sampler", "Sampling", "Stop", "Warmth"]


class Stop(StrEnum):
    """Why a completion ended."""

    end = "end"  # the model ended its turn
    text = "text"  # a stop string appeared
    length = "length"  # the token limit
    context = "context"  # the model's context is full


class Warmth(Value):
    """A temperature that follows the entropy H of each step: T (1 + strength · clip(slope · (log H − pivot), ±1)).

    The slope is `above` where log H lies above the pivot, else `below`; slopes of 0 leave the temperature alone.
    """

    strength: Number = 0.05
    pivot: Number = 0.0  # log of nats
    above: Number = 0.0
    below: Number = 0.0

    def __post_init__(self) -> None:
        within(self, "strength", 0, 0.99)  # the temperature stays above 0

    def numbers(self) -> tuple[float, float, float, float]:
        return float(self.strength), float(self.pivot), float(self.above), float(self.below)


class Sampling(Value):
    """How tokens are drawn."""

    temperature: float = 1.0  # 0: the most likely token
    top_p: float = 1.0
    top_k: int = 0  # 0: all
    min_p: float = 0.0
    max_tokens: int = 64
    stop: tuple[str, ...] = ()
    warmth: Warmth | None = None

    def __post_init__(self) -> None:
        within(self, "temperature", 0)
        within(self, "top_p", 0, 1, open_low=True)
        within(self, "top_k", 0)
        within(self, "min_p", 0, 1)
        within(self, "max_tokens", 1)


@dataclass(frozen=True)
class Generate:
    """n completions of one context.

    `stream` names the random numbers: completion i draws from the stream (*stream, first + i), whatever else is in
    the batch. `prefix` is text already written in this turn, which the completions continue; its length counts for
    the position in the stream but not for `max_tokens`.
    """

    context: tuple[int, ...]
    n: int = 1
    sampling: Sampling = Sampling()
    stream: tuple[int, ...] = (0,)
    first: int = 0
    prefix: tuple[int, ...] = ()
    capture: tuple[str, ...] = ()  # further signals to keep per token: entropy, topk, …
    keep: bool = True  # hold the keys and values of what was written for a while: a next turn may continue it


@dataclass(frozen=True)
class Completion:
    """What was written: token ids, their log-probabilities under the distribution sampled from, and why it ended."""

    ids: tuple[int, ...]  # without the prefix; with the end-of-turn token if the model wrote it
    logp: tuple[float, ...]
    stop: Stop
    # A number per token and name; for topk, (id, log-probability) pairs.
    captured: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


class Sampler(Protocol):
    """Draws completions with continuous batching: work can be added while other work is under way."""

    def submit(self, request: Generate) -> int:
        """Add work; returns its ticket."""
        ...

    def poll(self) -> list[tuple[int, list[Completion]]]:
        """Go on until at least one ticket is complete; returns what is. Empty when there is nothing to do."""
        ...

    def generate(self, requests: Sequence[Generate]) -> list[list[Completion]]:
        """All completions of several requests at once."""
        ...

    def text(self, ids: Sequence[int]) -> str:
        """What a person reads: token ids as text without special tokens."""
        ...

    def encode(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        """A conversation as token ids that end where the model's turn begins."""
        ...
