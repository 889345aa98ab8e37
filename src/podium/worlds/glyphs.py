"""Handwritten digits that are drawn, not collected: strokes with jitter, as 8 x 8 counts of ink.

They are made like the pictures of scikit-learn's `load_digits`: a bitmap of 32 x 32, of which every block of 4 x 4
counts its inked pixels, 0 to 16. They are easier than what people wrote.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import numpy as np
from numpy.typing import NDArray

__all__ = ["INK", "draw_digit"]

INK = 16  # pixels of a block
BITMAP, BLOCK = 32, 4
Point = tuple[float, float]  # right and down, in [0, 1]
Stroke = Sequence[Point]


def _arc(x: float, y: float, width: float, height: float, start: float, end: float, count: int = 8) -> list[Point]:
    """Points of an ellipse around (x, y) between two angles in degrees, clockwise from the right."""
    angles = [math.radians(start + (end - start) * i / count) for i in range(count + 1)]
    return [(x + width * math.cos(a), y + height * math.sin(a)) for a in angles]


# The ways in which people write each digit.
FORMS: tuple[tuple[tuple[Stroke, ...], ...], ...] = (
    ((_arc(0.5, 0.5, 0.32, 0.45, 0, 360, 14),), (_arc(0.5, 0.5, 0.22, 0.45, 0, 360, 14),)),
    (
        ([(0.5, 0.05), (0.5, 0.95)],),
        ([(0.3, 0.25), (0.52, 0.05), (0.52, 0.95)],),
        ([(0.3, 0.25), (0.5, 0.05), (0.5, 0.95)], [(0.25, 0.95), (0.75, 0.95)]),
    ),
    (
        ([*_arc(0.5, 0.3, 0.3, 0.25, 190, 380), (0.2, 0.95), (0.8, 0.95)],),
        ([*_arc(0.5, 0.27, 0.26, 0.22, 180, 400), (0.2, 0.92), (0.5, 0.85), (0.85, 0.95)],),
    ),
    (
        ([*_arc(0.45, 0.28, 0.3, 0.22, 200, 450), *_arc(0.45, 0.72, 0.33, 0.23, 270, 520)],),
        ([(0.2, 0.06), (0.75, 0.06), (0.45, 0.42), *_arc(0.45, 0.68, 0.3, 0.26, 280, 510)],),
    ),
    (
        ([(0.6, 0.05), (0.15, 0.62), (0.85, 0.62)], [(0.65, 0.35), (0.6, 0.95)]),
        ([(0.25, 0.05), (0.2, 0.5), (0.8, 0.5)], [(0.75, 0.05), (0.7, 0.95)]),
    ),
    (
        ([(0.8, 0.05), (0.28, 0.05), (0.24, 0.45), *_arc(0.45, 0.68, 0.32, 0.26, 240, 500)],),
        ([(0.75, 0.06), (0.3, 0.08), (0.3, 0.42), *_arc(0.48, 0.66, 0.27, 0.27, 250, 470)],),
    ),
    (
        ([(0.65, 0.05), (0.33, 0.35), *_arc(0.5, 0.7, 0.27, 0.24, 190, 550, 12)],),
        ([(0.45, 0.05), (0.28, 0.4), *_arc(0.5, 0.72, 0.24, 0.22, 180, 540, 12)],),
    ),
    (
        ([(0.2, 0.07), (0.8, 0.07), (0.4, 0.95)],),
        ([(0.2, 0.07), (0.8, 0.07), (0.45, 0.95)], [(0.3, 0.5), (0.75, 0.5)]),
    ),
    (
        (_arc(0.5, 0.28, 0.24, 0.22, 90, 450, 12), _arc(0.5, 0.73, 0.28, 0.23, -90, 270, 12)),
        (_arc(0.52, 0.28, 0.2, 0.22, 90, 450, 12), _arc(0.48, 0.73, 0.24, 0.23, -90, 270, 12)),
    ),
    (
        (_arc(0.5, 0.3, 0.26, 0.24, 0, 360, 12), [(0.76, 0.3), (0.7, 0.6), (0.5, 0.95)]),
        (_arc(0.48, 0.28, 0.24, 0.22, 0, 360, 12), [(0.72, 0.28), (0.7, 0.95)]),
    ),
)


def draw_digit(digit: int, rng: Random) -> NDArray[np.int64]:
    """A picture of the digit, [8, 8], 0 to 16: a form of it, turned, slanted, stretched, moved and traced unevenly."""
    turn, slant = rng.gauss(0, 0.08), rng.gauss(0.1, 0.12)
    width, height = rng.uniform(0.75, 1.05), rng.uniform(0.85, 1.0)
    right, down, radius = rng.gauss(0, 0.04), rng.gauss(0, 0.03), rng.uniform(0.055, 0.09)

    def placed(point: Point) -> Point:
        x, y = (width * (point[0] - 0.5) + rng.gauss(0, 0.018), height * (point[1] - 0.5) + rng.gauss(0, 0.018))
        x -= slant * y
        x, y = x * math.cos(turn) - y * math.sin(turn), x * math.sin(turn) + y * math.cos(turn)
        return x + 0.5 + right, y + 0.5 + down

    segments: list[tuple[float, ...]] = []
    for stroke in rng.choice(FORMS[digit]):
        points = [placed(point) for point in stroke]
        segments += [(*begin, end[0] - begin[0], end[1] - begin[1]) for begin, end in pairwise(points)]
    x, y, right_of, below = np.array(segments).T  # where each begins, and how far it goes
    places = (np.arange(BITMAP) + 0.5) / BITMAP
    dx, dy = places[None, :, None] - x, places[:, None, None] - y  # [row, column, segment]
    share = np.clip((dx * right_of + dy * below) / (right_of**2 + below**2), 0, 1)  # where on it the nearest point is
    ink = ((dx - share * right_of) ** 2 + (dy - share * below) ** 2 < radius**2).any(-1)
    blocks = BITMAP // BLOCK
    return ink.reshape(blocks, BLOCK, blocks, BLOCK).sum((1, 3))
