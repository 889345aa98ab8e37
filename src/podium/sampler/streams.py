"""Random streams: uniform numbers as a function of a name and a position, and of nothing else.

A rollout's stream is named by integers (seed, iteration, group, wave, index, …). The number at position t is a hash of
the name and t, so it does not depend on what else is sampled, in which order, or where.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["key", "uniforms"]

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
