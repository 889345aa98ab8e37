"""Pseudo-random numbers that depend on the identity of an element, never on its place in the batch."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from podium.core.columns import Column

__all__ = ["hashed", "mixed", "uniform"]

_M1, _M2 = -49064778989728563, -4265267296055464877  # splitmix64's multipliers as signed numbers


def mixed(x: Tensor) -> Tensor:
    """A bijection of 64-bit integers whose output looks random (splitmix64's finaliser)."""
    x = x + -7046029254386353131
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * _M1
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * _M2
    return x ^ ((x >> 31) & ((1 << 33) - 1))


def hashed(column: Column, device: torch.device) -> Tensor:
    """A 64-bit integer for each value of a column: equal ones for equal values."""
    if isinstance(column, Tensor):
        return mixed(column.double().view(torch.long) if column.is_floating_point() else column.long())
    return torch.tensor([_digest(repr(value)) for value in column], device=device)


def uniform(identity: Tensor, name: str, width: int | None, dtype: torch.dtype) -> Tensor:
    """[element] a number in [0, 1) from each identity and the name of the draw; with `width`, that many."""
    state = mixed(identity ^ _digest(name))
    if width is not None:
        state = mixed(state[:, None] ^ mixed(torch.arange(1, width + 1, device=state.device)))
    # The upper bits of a 64-bit number, as many as the floating type holds exactly.
    bits = 53 if dtype == torch.float64 else 24
    return ((state >> (64 - bits)) & ((1 << bits) - 1)).to(dtype) * 2.0**-bits


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)
