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


def uniforms(keys: Sequence[int], starts: Sequence[int], count: int) -> NDArray[np.float64]:
    """[stream, count] numbers in (0, 1): those at positions start, start + 1, … of each stream."""
    position = np.asarray(starts, dtype=np.uint64)[:, None] + np.arange(1, count + 1, dtype=np.uint64)
    x: Any = np.asarray(keys, dtype=np.uint64)[:, None] + position * np.uint64(STEP)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(M1)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(M2)
    x = x ^ (x >> np.uint64(31))
    # 40 bits and a half: never 0 or 1, so that no token of probability 0 can be drawn.
    made: NDArray[np.float64] = ((x >> np.uint64(24)).astype(np.float64) + 0.5) * 2.0**-40
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
