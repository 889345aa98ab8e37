"""Drawing tokens with temperature, top-k, top-p and min-p, by inverting the cumulative distribution at a given number.

The filters act one after another: top-k on the tempered distribution, top-p on what is left, min-p relative to the most
likely token. The log-probability of a token is the one under the distribution it was drawn from.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from podium.core.token_sets import listed_sets
from podium.policy.head.functionals import EXCLUDED
from podium.policy.native import Draw, library, place

__all__ = ["Drawn", "Filters", "KeptTokens", "draw"]

CANDIDATES = 128  # the nucleus is searched among this many most likely tokens first, then among all
BLOCK = 32  # probabilities are summed in blocks of this many tokens: first the block is found, then the token in it


@dataclass(frozen=True)
class Filters:
    """How the distribution of each row is truncated."""

    top_k: Tensor  # [n] 0: all
    top_p: Tensor  # [n] 1: all
    min_p: Tensor  # [n] 0: all

    @property
    def truncated(self) -> Tensor:
        """[n] whether anything is filtered."""
        return (self.top_k > 0) | (self.top_p < 1.0) | (self.min_p > 0.0)


@dataclass(frozen=True)
class KeptTokens:
    """What the filters left in each row, as lists of tokens."""

    ids: Tensor  # of all rows that are truncated, one row after another, each in order; what follows says nothing
    ends: Tensor  # [n + 1] where those of each row begin, and the last end; none are of a row that is not truncated

    @classmethod
    def of(cls, mask: Tensor) -> KeptTokens:
        """Those of a mask [n, V], which is empty in rows that are not truncated."""
        return cls(mask.nonzero()[:, 1].to(torch.int32), F.pad(mask.sum(1).cumsum(0), (1, 0)))

    def where(self, condition: Tensor, other: KeptTokens) -> KeptTokens:
        """The rows of these where the condition holds, otherwise of the other."""
        spans = [list(pairwise(x.ends.tolist())) for x in (other, self)]
        rows = [(self if own else other).ids[slice(*spans[own][row])] for row, own in enumerate(condition.tolist())]
        return KeptTokens(torch.cat(rows), torch.tensor([0, *accumulate(map(len, rows))]))

    def sets(self, vocabulary: int) -> list[str]:
        """The text of each row's set; empty for rows that are not truncated."""
        return listed_sets(self.ids.cpu().numpy(), self.ends.tolist(), vocabulary)


@dataclass(frozen=True)
class Drawn:
    """Tokens and their log-probabilities; the distribution they were drawn from is computed when asked for."""

    token: Tensor  # [n]
    logp: Tensor  # [n]
    distribution: Callable[[], Tensor]
    known_entropy: Tensor | None = None  # [n] if drawing computed it on the way
    kept: KeptTokens | None = None  # what the filters left, if asked for and there are any

    @cached_property
    def log_softmax(self) -> Tensor:
        """[n, V]"""
        return self.distribution()

    @cached_property
    def probability(self) -> Tensor:
        """[n, V]"""
        return self.log_softmax.exp()


def draw(
    logits: Tensor,
    uniform: Tensor,
    temperature: Tensor | None = None,
    filters: Filters | None = None,
    warmth: Tensor | None = None,  # [4, n] strength, pivot, slopes above and below: see `Warmth`
    recorded: bool = False,  # tell what the filters left
) -> Drawn:
    """One token per row: the first whose cumulative probability exceeds the row's uniform number (float64)."""
    if library() is None or logits.device.type != "cpu" or logits.dtype != torch.float32:
        return _plain(logits, uniform, temperature, filters, warmth, recorded)
    native = _native(logits, uniform, temperature, filters, recorded)
    if warmth is None:
        return native
    # A row's numbers must not depend on the settings of others: rows without warmth keep the native draw.
    warmed, steady = _plain(logits, uniform, temperature, filters, warmth, recorded), warmth[0] == 0
    assert native.known_entropy is not None
    return Drawn(
        native.token.where(steady, warmed.token),
        native.logp.where(steady, warmed.logp),
        warmed.distribution,
        native.known_entropy.where(steady, _entropy(warmed.log_softmax)),
        None if native.kept is None or warmed.kept is None else native.kept.where(steady, warmed.kept),
    )


def _native(
    logits: Tensor, uniform: Tensor, temperature: Tensor | None, filters: Filters | None, recorded: bool
) -> Drawn:
    """By the native kernel, in one pass over the logits."""
    n, vocabulary = logits.shape
    warm = logits.new_ones(n) if temperature is None else temperature
    inputs = [x.contiguous() for x in (logits, uniform, warm)]
    kept = [] if filters is None else [x.contiguous() for x in (filters.top_k, filters.top_p, filters.min_p)]
    token, logp, entropy = torch.empty(n, dtype=torch.long), logits.new_empty(n), logits.new_empty(n)
    work, order = logits.new_empty(3 * vocabulary), torch.empty(vocabulary, dtype=torch.long)
    mass = torch.empty(vocabulary // BLOCK + 1, dtype=torch.float64)
    listed = None
    if recorded and filters is not None:
        listed = KeptTokens(torch.empty(n * vocabulary, dtype=torch.int32), torch.zeros(n + 1, dtype=torch.long))
    bounds: list[int | None] = [place(x) for x in kept] or [None] * 3
    places = [
        *map(place, inputs),
        *bounds,
        *map(place, (token, logp, entropy, work, mass, order)),
        *((None, None) if listed is None else (place(listed.ids), place(listed.ends))),
    ]
    kernels = library()
    assert kernels is not None
    kernels.podium_draw(byref(Draw(*places, n, vocabulary)))
    return Drawn(token, logp, lambda: _plain(logits, uniform, temperature, filters, None).log_softmax, entropy, listed)


def _plain(
    logits: Tensor,
    uniform: Tensor,
    temperature: Tensor | None,
    filters: Filters | None,
    warmth: Tensor | None,
    recorded: bool = False,
) -> Drawn:
    z = logits.float()
    if temperature is not None:
        z = z / temperature[:, None]
    log_p = z.log_softmax(-1)
    if warmth is not None:
        log_p = (z / _warmth_factor(log_p, *warmth)[:, None]).log_softmax(-1)
    if filters is not None:
        kept = _kept(log_p, filters)
        # Rows without a filter keep their numbers to the bit.
        log_p = torch.where(kept.all(-1, keepdim=True), log_p, log_p.masked_fill(~kept, float("-inf")).log_softmax(-1))
    token = _invert(log_p.exp(), uniform[:, None])
    left = None
    if recorded and filters is not None:
        left = KeptTokens.of((log_p > EXCLUDED * 1e-4) & filters.truncated[:, None])
    return Drawn(token.squeeze(1), log_p.gather(1, token).squeeze(1), lambda: log_p, kept=left)


def _entropy(log_p: Tensor) -> Tensor:
    return -(log_p.exp() * log_p.clamp(min=torch.finfo(log_p.dtype).min)).sum(-1)


def _warmth_factor(log_p: Tensor, strength: Tensor, pivot: Tensor, above: Tensor, below: Tensor) -> Tensor:
    """[n] the factor on the temperature of each row, by its entropy: see `Warmth`."""
    gap = _entropy(log_p).clamp(min=1e-8).log() - pivot
    return 1 + strength * (torch.where(gap > 0, above, below) * gap).clamp(-1, 1)


def _invert(p: Tensor, uniform: Tensor) -> Tensor:
    """[n, 1] the first token at which the running sum of p exceeds `uniform` times the total."""
    n, vocabulary = p.shape
    spare = -vocabulary % BLOCK
    blocks = (F.pad(p, (0, spare)) if spare else p).view(n, -1, BLOCK)
    mass = blocks.sum(-1).double()
    total = mass.cumsum(-1)
    goal = uniform * total[:, -1:]
    block = torch.searchsorted(total, goal, right=True)
    inside = blocks.gather(1, block[:, :, None].expand(n, 1, BLOCK)).squeeze(1).double().cumsum(-1)
    # The two sums of a block may differ in the last bit: the goal is kept inside the block, where p > 0.
    rest = goal - (total.gather(1, block) - mass.gather(1, block))
    rest = torch.minimum(rest, inside[:, -1:] * (1 - 2.0**-40))
    return block * BLOCK + torch.searchsorted(inside, rest, right=True)


def _kept(log_p: Tensor, filters: Filters) -> Tensor:
    """[n, V] the tokens that a row may draw."""
    vocabulary = log_p.shape[1]
    kept = log_p >= log_p.amax(-1, keepdim=True) + filters.min_p.log()[:, None]
    ranked = _ranked(log_p, CANDIDATES)
    inside, enough = _prefix(log_p, ranked, filters)
    if ranked.shape[1] < vocabulary and not bool(enough.all()):
        ranked = _ranked(log_p, vocabulary)
        inside, _ = _prefix(log_p, ranked, filters)
    free = (filters.top_k == 0) & (filters.top_p >= 1.0)
    return kept & (torch.zeros_like(kept).scatter(1, ranked, inside) | free[:, None])


def _ranked(log_p: Tensor, count: int) -> Tensor:
    """The `count` most likely tokens in order; the lower id first where two are equally likely."""
    vocabulary = log_p.shape[1]
    bits = log_p.view(torch.int32).long()
    # Log-probabilities are ≤ 0, and the bits of negative floats are in reverse order.
    order = torch.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    unique = (order << 32) | torch.arange(vocabulary - 1, -1, -1, device=log_p.device)
    if count >= vocabulary:
        return unique.sort(dim=-1, descending=True).indices
    return unique.topk(count, dim=-1).indices


def _prefix(log_p: Tensor, ranked: Tensor, filters: Filters) -> tuple[Tensor, Tensor]:
    """Which of the ranked tokens top-k and top-p keep, and per row whether the ranked tokens were enough to tell."""
    rank = torch.arange(ranked.shape[1], device=log_p.device)
    limit = torch.where(filters.top_k > 0, filters.top_k, log_p.shape[1])[:, None]
    p = log_p.gather(1, ranked).double().exp() * (rank < limit)
    total = p.cumsum(-1)
    mass = torch.where(filters.top_k[:, None] > 0, total[:, -1:], 1.0)  # what top-k leaves for top-p to divide
    goal = torch.where(filters.top_p[:, None] < 1.0, filters.top_p[:, None] * mass, float("inf"))
    inside = (rank < limit) & (total - p < goal)
    complete = (filters.top_k > 0) & (filters.top_k <= ranked.shape[1])
    reached = (filters.top_k == 0) & ((total[:, -1:] >= goal).squeeze(1) | (filters.top_p >= 1.0))
    return inside, complete | reached
