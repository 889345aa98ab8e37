"""Random streams: uniform numbers as a function of a name and a position, and of nothing else.

A rollout's stream is named by integers (seed, iteration, group, wave, index, …). The number at position t is a hash of
the name and t, so it does not depend on what else is sampled, in which order, or where.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["key", "uniforms", "uniforms_on"]

MASK = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15
Numbers = Sequence[int] | NDArray[Any]
M1, M2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def _mix(x: int) -> int:
    """splitmix64: a bijection of 64-bit integers whose output looks random."""
    x = (x + STEP) & MASK
    x = ((x ^ (x >> 30)) * M1) & MASK
    x = ((x ^ (x >> 27)) * M2) & MASK
    return x ^ (x >> 31)


def key(seed: int, name: Sequence[int]) -> int:
    """The 64-bit key of the stream with this name."""
    state = _state(seed, *name[:-1])  # the streams of a group differ in their last number
    for number in name[-1:]:
        state = _mix(_mix(state) ^ (number & MASK))
    return state


@lru_cache(1024)
def _state(seed: int, *name: int) -> int:
    state = _mix(seed & MASK)
    for number in name:
        state = _mix(_mix(state) ^ (number & MASK))
    return state


def uniforms(keys: Numbers, starts: Numbers, count: int) -> NDArray[np.float64]:
    """[stream, count] numbers in (0, 1): those at positions start, start + 1, … of each stream."""
    wide = np.uint64
    first = np.asarray(keys, dtype=wide) + np.asarray(starts, dtype=wide) * wide(STEP)
    x = first[:, None] + np.arange(1, count + 1, dtype=wide) * wide(STEP)
    shifted = np.empty_like(x)
    for bits, factor in ((30, M1), (27, M2)):
        x ^= np.right_shift(x, wide(bits), out=shifted)
        x *= wide(factor)
    x ^= np.right_shift(x, wide(31), out=shifted)
    # 40 bits and a half: never 0 or 1, so that no token of probability 0 can be drawn.
    x >>= wide(24)
    made = x.view(np.int64).astype(np.float64)
    made += 0.5
    made *= 2.0**-40
    return made


def uniforms_on(keys: Tensor, starts: Tensor, count: int) -> Tensor:
    """The same numbers from keys [stream] and starts [stream], int64, on their device."""

    def shifted(x: Tensor, bits: int) -> Tensor:  # torch shifts the sign in
        return (x >> bits) & ((1 << (64 - bits)) - 1)

    position = starts[:, None] + torch.arange(1, count + 1, device=keys.device)
    x = keys[:, None] + position * _signed(STEP)
    x = (x ^ shifted(x, 30)) * _signed(M1)
    x = (x ^ shifted(x, 27)) * _signed(M2)
    x = x ^ shifted(x, 31)
    return (shifted(x, 24).double() + 0.5) * 2.0**-40


def _signed(x: int) -> int:
    return x - (1 << 64) if x >= 1 << 63 else x
