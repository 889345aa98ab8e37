"""What a request may keep of every token that is drawn, beside its log-probability."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from podium.core.errors import PodiumError, nearest
from podium.policy.functionals import FUNCTIONALS, Rows
from podium.sampler.draw import Drawn

__all__ = ["Capture", "capture", "readable"]

Capture = Callable[[Drawn], Tensor]


@cache
def capture(name: str) -> Capture:
    """`entropy` or another functional of the distribution drawn from; `topk` or `topk=K`: the most likely tokens."""
    kind, _, number = name.partition("=")
    if kind == "topk" and (not number or (number.isdigit() and int(number) > 0)):
        return lambda drawn: _topk(drawn, int(number or 5))
    known = {"topk", *FUNCTIONALS} - {"value"}
    if name not in known:
        raise PodiumError(f"The sampler cannot capture {name!r}. {nearest(name, known)}")
    return lambda drawn: FUNCTIONALS[name](Rows.of(drawn.log_softmax, drawn.probability, drawn.token))


def _topk(drawn: Drawn, k: int) -> Tensor:
    """[n, 2 k] ids, then log-probabilities."""
    logp, ids = drawn.log_softmax.topk(min(k, drawn.log_softmax.shape[1]), dim=-1)
    return torch.cat([ids.double(), logp.double()], 1)


def readable(values: list[Any]) -> tuple[Any, ...]:
    """Captured values of one completion: numbers as they are, the most likely tokens as (id, log-probability) pairs."""
    if not values or isinstance(values[0], float):
        return tuple(values)
    half = len(values[0]) // 2
    return tuple(tuple((int(i), p) for i, p in zip(v[:half], v[half:], strict=True)) for v in values)
