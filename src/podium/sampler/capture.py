"""Signals that a request can capture for every token drawn, besides its log-probability."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from podium.core.errors import PodiumError, nearest
from podium.policy.head.functionals import FUNCTIONALS, HeadRows
from podium.sampler.draw import Drawn

__all__ = ["Capture", "capture", "readable"]

Capture = Callable[[Drawn, Tensor], Tensor]  # from what was drawn and the model's input embeddings
SETTINGS = re.compile(r"(\w+)\[(.+)\]")


@cache
def capture(name: str) -> Capture:
    """`entropy` or another functional of the distribution drawn from, `entropy[top_k=20]` with settings;
    `topk` or `topk=K`: the most likely tokens."""
    kind, _, number = name.partition("=")
    if kind == "topk" and (not number or (number.isdigit() and int(number) > 0)):
        return lambda drawn, _: _topk(drawn, int(number or 5))
    names = {"topk", *FUNCTIONALS} - {"value"}
    word, inside = SETTINGS.fullmatch(name).groups() if SETTINGS.fullmatch(name) else (name, "")  # type: ignore[union-attr]
    if word not in names:
        raise PodiumError(f"The sampler cannot capture {name!r}. {nearest(word, names)}")
    pairs = (text.partition("=") for text in inside.split(",") if text)
    settings = {key: _literal(value) for key, _, value in pairs}
    return lambda drawn, embeddings: _functional(drawn, embeddings, word, settings)


def _literal(value: str) -> Any:
    """The value of a setting as written in a column's name, where strings have no quotes."""
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value


def _functional(drawn: Drawn, embeddings: Tensor, name: str, settings: dict[str, Any]) -> Tensor:
    if name == "entropy" and not settings and drawn.known_entropy is not None:
        return drawn.known_entropy
    return FUNCTIONALS[name](HeadRows.of(drawn.log_softmax, drawn.probability, drawn.token, embeddings), **settings)


def _topk(drawn: Drawn, k: int) -> Tensor:
    """[n, 2 k] ids, then log-probabilities."""
    logp, ids = drawn.log_softmax.topk(min(k, drawn.log_softmax.shape[1]), dim=-1)
    return torch.cat([ids.double(), logp.double()], 1)


def readable(values: list[Any]) -> tuple[Any, ...]:
    """Captured values of one completion: numbers as they are, `topk` as (id, log-probability) pairs."""
    if not values or isinstance(values[0], float):
        return tuple(values)
    half = len(values[0]) // 2
    return tuple(tuple((int(i), p) for i, p in zip(v[:half], v[half:], strict=True)) for v in values)
