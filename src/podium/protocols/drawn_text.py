"""Drawings as text: what a flow is asked to draw, and the picture that it hands to its world.

A prompt ends with `draw: 3`, the number of what is asked for. A picture is rows of shades, whole numbers from 0 to 16.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from podium.core.errors import PodiumError

__all__ = ["SHADES", "picture_text", "read_asked", "read_picture"]

SHADES = 16  # the darkest one
ASKED = re.compile(r"draw: (\d{1,6})\s*$")


def read_asked(prompt: str, classes: int) -> int:
    """The number of what a prompt asks for, of so many that a flow knows."""
    found = ASKED.search(prompt)
    if found is None:
        raise PodiumError(
            f"A flow is asked {' '.join(prompt.split())[:60]!r}, which does not say what to draw. Take the world "
            "drawing, or a language model (--model podium/tiny)."
        )
    if int(found[1]) >= classes:
        raise PodiumError(f"A flow is asked to draw {found[1]}, and knows 0 to {classes - 1}.")
    return int(found[1])


def picture_text(shades: Sequence[int]) -> str:
    """The rows of a square picture."""
    side = math.isqrt(len(shades))
    return "\n".join(" ".join(map(str, shades[row * side : (row + 1) * side])) for row in range(side))


def read_picture(text: str, side: int) -> list[int] | None:
    """The shades of a picture of so many rows; None: it is none, or of another size."""
    words = text.split()
    if len(words) != side * side or not all(word.isdecimal() and len(word) < 3 for word in words):
        return None
    shades = [int(word) for word in words]
    return shades if max(shades) <= SHADES else None
