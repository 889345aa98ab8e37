"""Functionals of the head: one or a few numbers per token or rollout, from logits and hidden states.

A functional is a named function of the rows of the head (logits, token ids, hidden states); a signal asks for it by
name. To add one:

    @functional("top_probability")
    def top_probability(rows: HeadRows) -> Tensor:
        return rows.log_softmax.amax(-1).exp()

Its settings are keyword arguments with the names that the signal uses; a setting that names a token column is replaced
by the column's values for the rows. It may be called on any part of the rows, with or without gradients. The head runs
in chunks, which are recomputed in the backward pass, so that nothing as wide as the vocabulary outlives its chunk.

A functional of level "rollout" gives one or a few numbers about a whole rollout. It is called once per rollout, with
the rows of all tokens that the model wrote there, in order; there may be none:

    @functional("drift", level="rollout")
    def drift(rows: HeadRows) -> Tensor:
        return rows.hidden.diff(dim=0).norm(dim=-1).sum()
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from podium.core.errors import PodiumError, nearest
from podium.core.signal import SIGNALS
from podium.core.token_sets import CODES, TokenSets
from podium.policy.native import library
from podium.policy.native.ops import chosen

__all__ = ["FUNCTIONALS", "Functional", "HeadRows", "Wanted", "evaluate_functionals", "functional", "level_of"]

Functional = Callable[..., Tensor]
FUNCTIONALS: dict[str, Functional] = {}
LEVELS: dict[str, str] = {}  # of functionals whose level is not "token"

# A functional by name with its settings.
Wanted = tuple[str, tuple[tuple[str, Any], ...]]
# The most logits in a chunk, on a CPU and on a GPU. If there is only one chunk, it is kept for the backward pass rather
# than recomputed.
CHUNK, CUDA_CHUNK = 1 << 23, 1 << 26
# The logit of a token that could not be drawn: its probability is 0, and 0 · log 0 = 0 needs no exception.
EXCLUDED = -1e9


def functional(name: str, level: str = "token") -> Callable[[Functional], Functional]:
    """Register a functional of the head under a name that signals can ask for."""
    if level not in ("token", "rollout"):
        raise PodiumError(f"A functional is of a 'token' or of a whole 'rollout', not of a {level!r}.")

    def register(function: Functional) -> Functional:
        FUNCTIONALS[name] = function
        SIGNALS.add(name)
        if level != "token":
            LEVELS[name] = level
        return function

    return register


def level_of(name: str) -> str:
    """The level of a functional: "token" or "rollout"."""
    find_functional(name)
    return LEVELS.get(name, "token")


class HeadRows:
    """Positions that predict a token: the hidden states, the tokens, and lazily the logits."""

    embeddings: Tensor | None = None  # [V, D] of the input, for the sampler

    def __init__(
        self,
        hidden: Tensor,  # [N, D] final hidden states
        ids: Tensor,  # [N] the tokens predicted
        head: Callable[[Tensor], Tensor],  # hidden states to logits
        temperature: float = 1.0,
        value_head: Callable[[Tensor], Tensor] | None = None,
        raw: Tensor | None = None,  # [N, V] the logits, if they are computed already
        columns: Mapping[str, Tensor] | None = None,  # [N, …] token columns that settings may name
        read: Callable[[Tensor, Tensor, float], tuple[Tensor, Tensor]]
        | None = None,  # log-probability and entropy without materialised logits
        sets: TokenSets | None = None,  # those that the column `token.allowed` numbers: the tokens that could be drawn
    ) -> None:
        self.columns, self.read, self.sets = columns or {}, read, sets
        self.hidden, self.ids, self.temperature = hidden, ids, temperature
        self._head, self._value_head, self._logits = head, value_head, raw

    @cached_property
    def unmasked(self) -> Tensor:
        """[N, V] logits of all tokens in float32 or better, before the temperature."""
        logits = self._head(self.hidden) if self._logits is None else self._logits
        return logits if logits.dtype == torch.float64 else logits.float()

    @cached_property
    def allowed(self) -> Tensor | None:
        """[N, V] the tokens that could be drawn; None: all."""
        return None if self.sets is None else self.sets.mask(self.columns[CODES], self.unmasked.shape[-1])

    @cached_property
    def raw(self) -> Tensor:
        """[N, V] the same, of the tokens that could be drawn: the others have a probability of exactly 0."""
        return self.unmasked if self.allowed is None else self.unmasked.masked_fill(~self.allowed, EXCLUDED)

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
    def of(cls, log_softmax: Tensor, probability: Tensor, ids: Tensor, embeddings: Tensor | None = None) -> HeadRows:
        """Rows of a known distribution, without hidden states."""
        rows = cls(log_softmax, ids, lambda hidden: hidden)
        rows.embeddings = embeddings
        rows.__dict__.update(log_softmax=log_softmax, probability=probability)
        return rows

    def take(self, places: Tensor | slice) -> HeadRows:
        """Some of the rows."""
        raw = None if self._logits is None else self._logits[places]
        columns = {name: x[places] for name, x in self.columns.items()}
        hidden, ids = self.hidden[places], self.ids[places]
        return HeadRows(hidden, ids, self._head, self.temperature, self._value_head, raw, columns, sets=self.sets)

    def at(self, temperature: float) -> HeadRows:
        """The same rows at another temperature."""
        if temperature == self.temperature:
            return self
        settings: dict[str, Any] = {"columns": self.columns, "sets": self.sets}
        return HeadRows(self.hidden, self.ids, lambda _: self.unmasked, temperature, self._value_head, **settings)

    def whole(self) -> HeadRows:
        """The same rows with all tokens of the vocabulary."""
        return HeadRows(self.hidden, self.ids, lambda _: self.unmasked, self.temperature, columns=self.columns)

    def detached(self) -> HeadRows:
        """The same rows without a graph."""
        settings: dict[str, Any] = {"columns": self.columns, "sets": self.sets}
        unmasked = self.unmasked.detach
        return HeadRows(
            self.hidden.detach(), self.ids, lambda _: unmasked(), self.temperature, self._value_head, **settings
        )

    @property
    def value(self) -> Tensor:
        """[N] values by the value head; [N, heads] if it has several."""
        if self._value_head is None:
            raise PodiumError("The signal 'value' needs a critic: this model has no value head.")
        return self._value_head(self.hidden).float().squeeze(-1)


@functional("logp")
def logp(rows: HeadRows, power: float = 1.0, min_p: float = 0.0) -> Tensor:
    """log π of the token; or under softmax(power · logits); or after dropping tokens below `min_p` · the likeliest.

    A token that `min_p` drops has a log-probability of about −10,000.
    """
    plain = power == 1.0 and min_p == 0.0 and rows.logits.dtype == torch.float32
    if plain and rows.logits.device.type == "cpu" and library() is not None:
        return chosen(rows.logits.contiguous(), rows.ids)
    log_p = rows.log_softmax if power == 1.0 else (power * rows.logits).log_softmax(-1)
    if min_p > 0.0:
        noise = log_p < log_p.amax(-1, keepdim=True) + math.log(min_p)
        log_p = (power * rows.logits).masked_fill(noise, -1e4).log_softmax(-1)
    return log_p.gather(-1, rows.ids[:, None]).squeeze(-1)


@functional("entropy")
def entropy(rows: HeadRows, top_p: float = 1.0, top_k: int = 0) -> Tensor:
    """−Σ p log p over the vocabulary, or over the most likely tokens whose total stays below `top_p`, renormalised.

    The token at which the total reaches `top_p` is excluded; if that is the first one, the entropy is 0. The set is
    held constant: the gradient flows through the probabilities inside it. With `top_k`, all but the k most likely
    tokens count as one.
    """
    log_p = rows.log_softmax
    least = torch.finfo(log_p.dtype).min  # 0 · log 0 = 0: a token that the logits exclude adds nothing
    if 0 < top_k < log_p.shape[-1]:
        head = log_p.topk(top_k, dim=-1).values
        tail = (1 - head.exp().sum(-1)).clamp(min=0)
        return -(head.exp() * head.clamp(min=least)).sum(-1) - torch.xlogy(tail, tail)
    if top_p >= 1.0:
        return -(rows.probability * log_p.clamp(min=least)).sum(-1)
    with torch.no_grad():
        ranked, order = rows.probability.sort(dim=-1, descending=True, stable=True)
        kept = torch.zeros_like(log_p, dtype=torch.bool).scatter(-1, order, ranked.cumsum(-1) < top_p)
        empty = ~kept.any(-1, keepdim=True)
    # An empty set is replaced by a set of one token, whose entropy and gradient are 0.
    kept = kept | (empty & (order[..., :1] == torch.arange(log_p.shape[-1], device=log_p.device)))
    inside = rows.logits.masked_fill(~kept, float("-inf")).log_softmax(-1)
    return -(inside.exp() * inside.masked_fill(~kept, 0.0)).sum(-1)


@functional("expected_discriminator")
def expected_discriminator(rows: HeadRows) -> Tensor:
    """Σ p S over the vocabulary with S = p (log p + H): by how much a gradient step on log π lowers H on average."""
    p, log_p = rows.probability, rows.log_softmax.clamp(min=torch.finfo(rows.log_softmax.dtype).min)
    return (p.square() * (log_p + entropy(rows)[:, None])).sum(-1)


@functional("top")
def top(rows: HeadRows, k: int = 100, power: float = 1.0) -> Tensor:
    """[N, k, 2] the k most likely tokens and their log-probabilities; or those under softmax(power · logits)."""
    log_p = _sharpened(rows, power)
    logp, ids = log_p.topk(min(k, log_p.shape[-1]), dim=-1)
    return torch.stack([ids.to(logp.dtype), logp], -1)


@functional("logp_of")
def logp_of(rows: HeadRows, tokens: Tensor, power: float = 1.0) -> Tensor:
    """[N, k] log π of given tokens; `tokens` [N, k, 2] holds their ids first, as `top` returns them."""
    return _sharpened(rows, power).gather(-1, tokens[..., 0].long())


def _sharpened(rows: HeadRows, power: float) -> Tensor:
    return rows.log_softmax if power == 1.0 else (power * rows.logits).log_softmax(-1)


@functional("mean_logp")
def mean_logp(rows: HeadRows) -> Tensor:
    """The mean of log π over the V tokens that could be drawn: at most −log V, attained only by the uniform one.

    Its negative is the self-certainty of the distribution, KL(uniform ‖ π) + log V.
    """
    if rows.allowed is None:
        return rows.logits.mean(-1) - rows.logits.logsumexp(-1)
    total = rows.logits.where(rows.allowed, 0).sum(-1)
    return total / rows.allowed.sum(-1) - rows.logits.logsumexp(-1)


@functional("logit")
def logit(rows: HeadRows) -> Tensor:
    """The logit of the token, before any temperature."""
    return rows.raw.gather(-1, rows.ids[:, None]).squeeze(-1)


@functional("value")
def value(rows: HeadRows, softmin: float | None = None, head: int | None = None) -> Tensor:
    """The critic's value of the state before the token; with several heads, all of them, one, or their soft minimum."""
    values = rows.value
    if head is not None:
        heads = 1 if values.dim() == 1 else values.shape[-1]
        if not 0 <= head < heads:
            raise PodiumError(f"The signal 'value' asks for head {head}, but the model has {heads}, counted from 0.")
        values = values if values.dim() == 1 else values[..., head]
    return values if softmin is None or values.dim() == 1 else soft_min(values, softmin)


def soft_min(values: Tensor, alpha: float) -> Tensor:
    """−alpha · log mean e^{−v/alpha} over the last dimension: the minimum for alpha → 0, the mean for alpha → ∞."""
    return -alpha * ((-values / alpha).logsumexp(-1) - math.log(values.shape[-1]))


@functional("similarity", level="rollout")
def similarity(rows: HeadRows, **settings: Any) -> Tensor:
    """The similarity of the hidden states of a rollout and of a passage; computed in `passage.py`."""
    raise PodiumError("The signal 'similarity' compares with a passage: name one, as in passage='truth'.")


@functional("flow_score")
def flow_score(rows: HeadRows, **settings: Any) -> Tensor:
    """How far the token's hidden states lie from those that a flow was fitted to; computed by a `Flow`."""
    raise PodiumError("The signal 'flow_score' needs a flow: add Role('flow', source='flow').")


@functional("quality")
def quality(rows: HeadRows, **settings: Any) -> Tensor:
    """The log-odds of success; computed by a `QualityHead`."""
    raise PodiumError("The signal 'quality' needs a head: add Role('quality', source='quality').")


@functional("flow_error")
def flow_error(rows: HeadRows, **settings: Any) -> Tensor:
    """The error of a flow on the token's hidden states, its training loss; computed by a `Flow`."""
    raise PodiumError("The signal 'flow_error' needs a flow: add Role('flow', source='flow').")


def find_functional(name: str) -> Functional:
    if name not in FUNCTIONALS:
        raise PodiumError(f"There is no signal {name!r}. {nearest(name, FUNCTIONALS)}")
    return FUNCTIONALS[name]


def evaluate_functionals(
    rows: HeadRows,
    wanted: Sequence[tuple[Wanted, bool]],
    width: int,
    chunk: int | None = None,
    rollouts: Sequence[Tensor] = (),
) -> list[Tensor]:
    """The wanted functionals, each with or without a gradient. `width` is the size of the vocabulary.

    Those of whole rollouts are evaluated on the rows that `rollouts` lists for each rollout.
    """
    single = [w for w in wanted if level_of(w[0][0]) == "token" and not _readable(rows, w[0])]
    whole = [w for w in wanted if level_of(w[0][0]) != "token"]
    chunk = chunk or (CUDA_CHUNK if rows.hidden.is_cuda else CHUNK)
    chunked = iter(_by_chunks(rows, single, width, chunk) if single else [])
    read = iter(_read(rows, [w for w in wanted if _readable(rows, w[0])]))
    each = [_recomputed(rows.take(places), whole) for places in rollouts] if whole else []
    joined = iter([torch.stack(values) for values in zip(*each, strict=True)])
    none = rows.hidden.new_zeros(0)  # if no rollout has a row
    return [
        next(read) if _readable(rows, w) else next(chunked) if level_of(w[0]) == "token" else next(joined, none)
        for w, _ in wanted
    ]


def _readable(rows: HeadRows, wanted: Wanted) -> bool:
    """Whether a functional needs no logits: log-probability and entropy, if the rows have `read`."""
    return rows.read is not None and rows.sets is None and wanted in (("logp", ()), ("entropy", ()))


def _read(rows: HeadRows, wanted: Sequence[tuple[Wanted, bool]]) -> list[Tensor]:
    if rows.read is None or not wanted:
        return []
    with torch.set_grad_enabled(torch.is_grad_enabled() and any(grad for _, grad in wanted)):
        values = dict(zip(("logp", "entropy"), rows.read(rows.hidden, rows.ids, rows.temperature), strict=True))
    return [values[name] if grad else values[name].detach() for (name, _), grad in wanted]


def _by_chunks(rows: HeadRows, wanted: Sequence[tuple[Wanted, bool]], width: int, chunk: int) -> list[Tensor]:
    """Functionals of tokens, with so many rows at a time that there are at most `chunk` logits."""
    size, total = max(1, chunk // width), rows.ids.numel()
    if total <= size:
        return _values(rows, wanted)
    pieces = [_recomputed(rows.take(slice(at, at + size)), wanted) for at in range(0, total, size)]
    return [torch.cat(parts) for parts in zip(*pieces, strict=True)]


def _recomputed(rows: HeadRows, wanted: Sequence[tuple[Wanted, bool]]) -> list[Tensor]:
    """Functionals of rows, recomputed in the backward pass so that no logits are kept for it."""

    def run(hidden: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
        settings: dict[str, Any] = {"columns": rows.columns, "sets": rows.sets}
        again = HeadRows(hidden, ids, rows._head, rows.temperature, rows._value_head, **settings)
        return tuple(_values(again, wanted))

    if rows._logits is None and torch.is_grad_enabled() and any(grad for _, grad in wanted):
        return list(checkpoint(run, rows.hidden, rows.ids, use_reentrant=False, preserve_rng_state=False))
    return _values(rows, wanted)


def _values(rows: HeadRows, wanted: Sequence[tuple[Wanted, bool]]) -> list[Tensor]:
    graph = torch.is_grad_enabled()
    detached: HeadRows | None = None
    results = []
    for (name, settings), grad in wanted:
        source = rows
        if graph and not grad:
            detached = detached or rows.detached()
            source = detached
        options: dict[str, Any] = {k: rows.columns.get(v, v) if isinstance(v, str) else v for k, v in settings}
        if "temperature" in options:
            source = source.at(options.pop("temperature"))
        with torch.set_grad_enabled(graph and grad):
            try:
                results.append(find_functional(name)(source, **options))
            except TypeError as error:
                if "unexpected keyword" not in str(error):
                    raise
                raise PodiumError(f"The signal {name!r} has no such setting: {error}.") from None
    return results
