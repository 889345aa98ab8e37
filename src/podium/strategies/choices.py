"""Choices between given texts: the model's probabilities of them, as if it could write nothing else.

After each token only those that continue one of the options are allowed, and the model's probabilities are divided by
their sum. What is chosen can be trained like sampled tokens: each token says which set it was drawn from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from podium.core.errors import PodiumError
from podium.core.token_sets import set_of

__all__ = ["Option", "options_among"]


@dataclass(frozen=True)
class Option:
    """One of several texts: its tokens, their log-probabilities among the options, and the sets they stand for."""

    ids: tuple[int, ...]
    logp: tuple[float, ...]
    allowed: tuple[str, ...]

    @property
    def probability(self) -> float:
        return math.exp(math.fsum(self.logp))


def options_among(ids: Sequence[tuple[int, ...]], logp: Sequence[Sequence[float]]) -> list[Option]:
    """The options with these tokens, none of which begins another; `logp` are the model's log-probabilities.

    Their probabilities sum to 1.
    """
    for number, one in enumerate(ids):
        if any(other[: len(one)] == one for other in (*ids[:number], *ids[number + 1 :])):
            raise PodiumError(f"Option {number} of {len(ids)} begins another or is the same: options must differ.")
    return [_option(ids, logp, number) for number in range(len(ids))]


def _option(ids: Sequence[tuple[int, ...]], logp: Sequence[Sequence[float]], number: int) -> Option:
    own, among, allowed = ids[number], [], []
    for place, token in enumerate(own):
        next_tokens = {
            other[place]: values[place] for other, values in zip(ids, logp, strict=True) if other[:place] == own[:place]
        }
        most = max(next_tokens.values())
        total = most + math.log(math.fsum(math.exp(x - most) for x in next_tokens.values()))
        among.append(next_tokens[token] - total)
        allowed.append(set_of(next_tokens))
    return Option(own, tuple(among), tuple(allowed))
