"""The codebooks of the embedded worlds, as data: coloured things on a grey ground, and strokes of ink."""

from __future__ import annotations

import numpy as np

from podium.worlds.glyphs import INK
from podium.worlds.picture import Codebook

__all__ = ["COLOURS", "EMPTY", "GROUND", "SCENERY", "STROKES", "THINGS", "code_of", "thing_of"]

GROUND = (0.5, 0.5, 0.5)
# In pairs that are each other's complement.
COLOURS: dict[str, tuple[float, float, float]] = {
    "red": (1.0, 0.25, 0.1),
    "blue": (0.0, 0.75, 0.9),
    "green": (0.1, 0.9, 0.2),
    "pink": (0.9, 0.1, 0.8),
    "black": (0.0, 0.0, 0.0),
    "white": (1.0, 1.0, 1.0),
}
THINGS: dict[str, tuple[str, str, str]] = {
    "box": ("###", "###", "###"),
    "tree": (" # ", "###", " # "),
    "lamp": ("# #", " # ", "# #"),
}
SMEAR = 0.45  # how much of its colour is left of a thing in a thumbnail or a blurred picture, all over the patch
EMPTY = 0  # the code of the ground
KINDS = (*THINGS, "")  # what a patch of some colour shows; the last is a smear: the colour alone can be seen


def code_of(colour: str, thing: str) -> int:
    """The code of a thing; without a thing, of a smear of the colour."""
    return 1 + len(KINDS) * list(COLOURS).index(colour) + KINDS.index(thing)


def thing_of(code: int) -> tuple[str, str] | None:
    """The colour and the name of what a code shows, the name empty for a smear; None: the ground."""
    if code == EMPTY:
        return None
    colour, kind = divmod(code - 1, len(KINDS))
    return list(COLOURS)[colour], KINDS[kind]


def _pale(colour: tuple[float, float, float]) -> tuple[float, ...]:
    return tuple((1 - SMEAR) * ground + SMEAR * value for ground, value in zip(GROUND, colour, strict=True))


def _scenery() -> np.ndarray:
    ground = np.broadcast_to(np.array(GROUND), (3, 3, 3))
    patches = [ground]
    for colour in COLOURS.values():
        for rows in THINGS.values():
            filled = np.array([[sign == "#" for sign in row] for row in rows])
            patches.append(np.where(filled[:, :, None], np.array(colour), ground))
        patches.append(np.broadcast_to(np.array(_pale(colour)), (3, 3, 3)))
    return np.stack(patches)


SIGNS = {"red": "R", "blue": "B", "green": "G", "pink": "P", "black": "K", "white": "W"}  # in small letters: a smear
SCENERY = Codebook(
    "scenery",
    _scenery(),  # 25 patches of 3 x 3 pixels
    {
        ".": GROUND,
        **{SIGNS[name]: colour for name, colour in COLOURS.items()},
        **{SIGNS[name].lower(): _pale(colour) for name, colour in COLOURS.items()},
    },
)

# Counts of ink, 0 to 16, in patches of 2 x 2: the 28 means of drawn digits (`glyphs.py`) that k-means finds, rounded.
INK_PATCHES = (
    *((0, 0, 0, 0), (1, 0, 6, 0), (0, 1, 0, 6), (7, 0, 1, 0), (0, 7, 0, 1), (0, 8, 0, 9), (9, 0, 8, 0), (0, 3, 2, 14)),
    *((2, 14, 0, 4), (14, 2, 4, 0), (4, 0, 14, 3), (9, 12, 1, 2), (14, 1, 13, 1), (1, 13, 2, 14), (2, 2, 14, 13)),
    *((1, 8, 10, 14), (15, 14, 3, 2), (14, 8, 12, 1), (10, 10, 8, 8), (7, 14, 3, 13), (8, 4, 13, 14), (6, 13, 14, 7)),
    *((13, 7, 7, 14), (13, 14, 13, 4), (14, 14, 3, 13), (3, 14, 13, 14), (15, 3, 14, 13), (13, 13, 14, 13)),
)
SHADES = " .:-=+*#%@"  # from no ink to all
STROKES = Codebook(
    "strokes",
    np.array(INK_PATCHES, float).reshape(len(INK_PATCHES), 2, 2, 1) / INK,
    {sign: (level / (len(SHADES) - 1),) for level, sign in enumerate(SHADES)},
)
