"""Synthetic scans: volumes of grey values with an organ, or with vessels and small lesions, whose truth is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Scan", "Volume", "blurred", "lesion_scan", "organ_scan"]

Volume = NDArray[np.float64]


@dataclass(frozen=True)
class Scan:
    """Grey values, and what they show."""

    grey: Volume  # [x, y, z]
    truth: NDArray[np.bool_]  # [x, y, z] of the organ or the lesions


def _places(side: int) -> Volume:
    """[x, y, z, axis] the centre of each voxel."""
    return np.stack(np.meshgrid(*[np.arange(side, dtype=float)] * 3, indexing="ij"), -1)


def blurred(volume: Volume, times: int = 1) -> Volume:
    """Each voxel averaged with its neighbours along each axis."""
    for _ in range(times):
        for axis in range(3):
            padded = np.pad(volume, [(1, 1) if a == axis else (0, 0) for a in range(3)], mode="edge")
            lower, upper = (padded.take(range(n, n + volume.shape[axis]), axis) for n in (0, 2))
            volume = (lower + 2 * volume + upper) / 4
    return volume


def organ_scan(draw: np.random.Generator, side: int = 12, contrast: float = 1.0) -> Scan:
    """An organ of two or three ellipsoids that overlap, beside a neighbour as bright as itself."""
    places, middle = _places(side), (side - 1) / 2
    truth = np.zeros((side,) * 3, dtype=bool)
    centre = draw.normal(middle, side / 12, 3)
    for _ in range(draw.integers(2, 4)):
        radii = draw.uniform(0.16, 0.27, 3) * side
        at = centre + draw.normal(0, side / 10, 3)
        truth |= (((places - at) / radii) ** 2).sum(-1) < 1
    way = draw.normal(size=3)
    beside = centre + way / np.linalg.norm(way) * 0.42 * side
    neighbour = ((places - beside) ** 2).sum(-1) < (0.2 * side) ** 2
    grey = contrast * blurred((truth | neighbour).astype(float), 2)
    shade = places @ draw.normal(0, 0.25 / side, 3)
    return Scan(grey + shade + draw.normal(0, 0.35, truth.shape), truth)


def lesion_scan(draw: np.random.Generator, side: int = 24, contrast: float = 1.0) -> Scan:
    """None to two small lesions among vessels, which are as bright, and noise."""
    places = _places(side)
    truth = np.zeros((side,) * 3, dtype=bool)
    bright = np.zeros((side,) * 3)
    for _ in range(draw.integers(2, 5)):  # vessels: bright lines through the volume
        start, way = draw.uniform(0, side, 3), draw.normal(size=3)
        way /= np.linalg.norm(way)
        along = (places - start) @ way
        off = np.linalg.norm(places - start - along[..., None] * way, axis=-1)
        bright = np.maximum(bright, np.exp(-((off / draw.uniform(0.8, 1.3)) ** 2)))
    for _ in range(draw.integers(0, 3)):
        at, radius = draw.uniform(3, side - 3, 3), draw.uniform(1.4, 2.3)
        truth |= np.linalg.norm(places - at, axis=-1) < radius
    grey = contrast * np.maximum(blurred(truth.astype(float)), bright)
    return Scan(grey + draw.normal(0, 0.3, truth.shape), truth)
