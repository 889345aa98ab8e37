"""Sampling: what a sampler is asked for, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from podium.core.errors import within
from podium.core.schedule import Number
from podium.core.value import Value
from podium.protocols.grammar import Grammar

__all__ = ["ALLOWED", "Completion", "Generate", "Sampler", "Sampling", "Stop", "Warmth"]


ALLOWED = "allowed"  # what to capture for the sets that tokens were drawn from: see `podium.core.token_sets`


class Stop(StrEnum):
    """Why a completion ended."""

    end = "end"  # the model ended its turn
    text = "text"  # a stop string appeared
    length = "length"  # the token limit
    context = "context"  # the model's context is full


class Warmth(Value):
    """A temperature that adapts to the entropy H of each token: T (1 + strength · clip(slope · (log H − pivot), ±1)).

    The slope is `above` where log H lies above the pivot, else `below`; slopes of 0 leave the temperature unchanged.
    """

    strength: Number = 0.05  # in [0, 0.99]
    pivot: Number = 0.0  # log of nats
    above: Number = 0.0
    below: Number = 0.0

    def __post_init__(self) -> None:
        within(self, "strength", 0, 0.99)  # the temperature stays above 0

    def numbers(self) -> tuple[float, float, float, float]:
        """Strength, pivot, above and below."""
        return float(self.strength), float(self.pivot), float(self.above), float(self.below)


class Sampling(Value):
    """How tokens are drawn."""

    temperature: float = 1.0  # 0: greedy
    top_p: float = 1.0  # 1: all tokens
    top_k: int = 0  # 0: all tokens
    min_p: float = 0.0  # 0: all tokens
    max_tokens: int = 64  # of a turn
    stop: tuple[str, ...] = ()  # texts that end a turn
    warmth: Warmth | None = None  # lets the temperature follow the entropy
    grammar: Grammar | None = None  # which tokens may come next; None: all

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
    the batch. `prefix` holds the tokens of this turn that exist already and that the completions continue: they count
    for the position in the stream, but not towards `max_tokens`.
    """

    context: tuple[int, ...]
    n: int = 1
    sampling: Sampling = Sampling()
    stream: tuple[int, ...] = (0,)
    first: int = 0
    prefix: tuple[int, ...] = ()
    capture: tuple[str, ...] = ()  # further signals to record per token: entropy, topk, …
    keep: bool = True  # keep the KV cache for a while, because a later turn may continue the text


@dataclass(frozen=True)
class Completion:
    """A completion: token ids, their log-probabilities under the distribution sampled from, and why it ended."""

    ids: tuple[int, ...]  # without the prefix; with the end-of-turn token if the model sampled it
    logp: tuple[float, ...]
    stop: Stop
    # A number per token and name; for topk, (id, log-probability) pairs; for `allowed`, a set, or None for all tokens.
    captured: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    text: str | None = None  # what it hands to the world, where that is not in the ids: a picture


class Sampler(Protocol):
    """Samples completions with continuous batching: requests can be added while others are running."""

    def submit(self, request: Generate) -> int:
        """Add a request; returns its ticket."""
        ...

    def poll(self) -> list[tuple[int, list[Completion]]]:
        """Sample until at least one request is complete; returns the complete ones. Empty when nothing is running."""
        ...

    def generate(self, requests: Sequence[Generate]) -> list[list[Completion]]:
        """The completions of several requests, sampled together."""
        ...

    def text(self, ids: Sequence[int]) -> str:
        """Token ids as text, without special tokens."""
        ...

    def encode(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        """A conversation as token ids, up to where the model's turn begins."""
        ...
