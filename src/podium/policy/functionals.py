"""Functionals of the head: what a model says about a token, as one or a few numbers.

A functional is a function of the rows of the head (logits, token ids, hidden states) with a name; a signal asks for it
by that name. To add one:

    @functional("top_probability")
    def top_probability(rows: Rows) -> Tensor:
        return rows.log_softmax.amax(-1).exp()

Its settings are keyword arguments with the names that the signal uses. It may be called on any part of the rows, under
a graph or not. The head runs in chunks; in the backward pass a chunk is computed again, so nothing as wide as the
vocabulary outlives it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from podium.core.errors import PodiumError, nearest

__all__ = ["FUNCTIONALS", "Functional", "Rows", "Wanted", "evaluate", "functional"]

Functional = Callable[..., Tensor]
FUNCTIONALS: dict[str, Functional] = {}

# A functional by name with its settings.
Wanted = tuple[str, tuple[tuple[str, Any], ...]]
# Numbers of a chunk's logits. One chunk of this size is kept for the backward pass rather than computed again.
CHUNK = 1 << 23


def functional(name: str) -> Callable[[Functional], Functional]:
    """Register a functional of the head under a name that signals can ask for."""

    def register(function: Functional) -> Functional:
        FUNCTIONALS[name] = function
        return function

    return register


class Rows:
    """Positions that predict a token: the hidden state there, the token, and what the head makes of it."""

    def __init__(
        self,
        hidden: Tensor,  # [N, D] final hidden states
        ids: Tensor,  # [N] the tokens predicted
        head: Callable[[Tensor], Tensor],  # hidden states to logits
        temperature: float = 1.0,
        value_head: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.hidden, self.ids, self.temperature = hidden, ids, temperature
        self._head, self._value_head = head, value_head

    @cached_property
    def raw(self) -> Tensor:
        """[N, V] logits in float32, before the temperature."""
        return self._head(self.hidden).float()

    @cached_property
    def logits(self) -> Tensor:
        """[N, V] logits in float32, divided by the temperature."""
        return self.raw if self.temperature == 1.0 else self.raw / self.temperature

    @cached_property
    def log_softmax(self) -> Tensor:
        """[N, V] log-probabilities of all tokens."""
        return self.logits.log_softmax(-1)

    @cached_property
    def probability(self) -> Tensor:
        """[N, V] probabilities of all tokens."""
        return self.log_softmax.exp()

    @classmethod
    def of(cls, log_softmax: Tensor, probability: Tensor, ids: Tensor) -> Rows:
        """Rows of a known distribution, without hidden states."""
        rows = cls(log_softmax, ids, lambda known: known)
        rows.__dict__.update(log_softmax=log_softmax, probability=probability)
        return rows

    def at(self, temperature: float) -> Rows:
        """The same rows at another temperature."""
        if temperature == self.temperature:
            return self
        return Rows(self.hidden, self.ids, lambda _: self.raw, temperature, self._value_head)

    def detached(self) -> Rows:
        """The same rows without a graph."""
        return Rows(self.hidden.detach(), self.ids, lambda _: self.raw.detach(), self.temperature, self._value_head)

    @property
    def value(self) -> Tensor:
        """[N] what the value head says."""
        if self._value_head is None:
            raise PodiumError("The signal 'value' needs a critic: this model has no value head.")
        return self._value_head(self.hidden).float().squeeze(-1)


@functional("logp")
def logp(rows: Rows) -> Tensor:
    """log π of the token."""
    return rows.log_softmax.gather(-1, rows.ids[:, None]).squeeze(-1)


@functional("entropy")
def entropy(rows: Rows, top_p: float = 1.0) -> Tensor:
    """−Σ p log p over the vocabulary, or over the most likely tokens whose total stays below `top_p`, renormalised.

    The token at which the total reaches `top_p` is out; if that is the first one, the entropy is 0. The set is
    constant: the gradient flows through the probabilities inside it.
    """
    log_p = rows.log_softmax
    if top_p >= 1.0:
        # 0 · log 0 = 0: a token that the logits exclude adds nothing.
        return -(rows.probability * log_p.clamp(min=torch.finfo(log_p.dtype).min)).sum(-1)
    with torch.no_grad():
        ranked, order = rows.probability.sort(dim=-1, descending=True, stable=True)
        kept = torch.zeros_like(log_p, dtype=torch.bool).scatter(-1, order, ranked.cumsum(-1) < top_p)
        empty = ~kept.any(-1, keepdim=True)
    # An empty set is replaced by a set of one token, whose entropy is 0 and has no slope.
    kept = kept | (empty & (order[..., :1] == torch.arange(log_p.shape[-1], device=log_p.device)))
    inside = rows.logits.masked_fill(~kept, float("-inf")).log_softmax(-1)
    return -(inside.exp() * inside.masked_fill(~kept, 0.0)).sum(-1)


@functional("value")
def value(rows: Rows) -> Tensor:
    """The critic's value of the state before the token."""
    return rows.value


def find(name: str) -> Functional:
    if name not in FUNCTIONALS:
        raise PodiumError(f"There is no signal {name!r}. {nearest(name, FUNCTIONALS)}")
    return FUNCTIONALS[name]


def evaluate(rows: Rows, wanted: Sequence[tuple[Wanted, bool]], width: int, chunk: int = CHUNK) -> list[Tensor]:
    """The wanted functionals of all rows, each with its gradient or without one. `width` is the vocabulary's size."""
    for (name, _), _ in wanted:
        find(name)
    size = max(1, chunk // width)
    total = rows.ids.numel()
    if total <= size:
        return _values(rows, wanted)
    graph = torch.is_grad_enabled() and any(grad for _, grad in wanted)
    pieces: list[list[Tensor]] = []
    for begin in range(0, total, size):
        hidden, ids = rows.hidden[begin : begin + size], rows.ids[begin : begin + size]

        def run(hidden: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
            return tuple(_values(Rows(hidden, ids, rows._head, rows.temperature, rows._value_head), wanted))

        if graph:
            values = checkpoint(run, hidden, ids, use_reentrant=False, preserve_rng_state=False)
        else:
            values = run(hidden, ids)
        pieces.append(list(values))
    return [torch.cat(parts) for parts in zip(*pieces, strict=True)]


def _values(rows: Rows, wanted: Sequence[tuple[Wanted, bool]]) -> list[Tensor]:
    graph = torch.is_grad_enabled()
    still: Rows | None = None
    results = []
    for (name, settings), grad in wanted:
        source = rows
        if graph and not grad:
            still = still or rows.detached()
            source = still
        options = dict(settings)
        if "temperature" in options:
            source = source.at(options.pop("temperature"))
        with torch.set_grad_enabled(graph and grad):
            try:
                results.append(find(name)(source, **options))
            except TypeError as error:
                if "unexpected keyword" not in str(error):
                    raise
                raise PodiumError(f"The signal {name!r} has no such setting: {error}.") from None
    return results
