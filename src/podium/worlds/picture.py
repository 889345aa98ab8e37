"""Pictures as tokens: pixels, the patches of a codebook, and pieces of reserved tokens that a model reads.

A picture is an array of pixels in [0, 1], with three colours or one shade of grey. A codebook has one token for each of
its patches: a picture becomes the rows of its nearest patches, which the prompt gives as `ModelTokens`. The reserved
tokens `<|reserved_0|>` … of podium/tiny and podium/tiny2 are these tokens, so that nothing else in the library has to
know about pictures.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from podium.core.errors import PodiumError, nearest
from podium.protocols.pieces import ModelTokens, Pieces, joined

__all__ = [
    "Codebook",
    "Codes",
    "Pixels",
    "SHIFTS",
    "as_tokens",
    "pictures_in",
    "png",
    "shifted",
    "sketched",
    "thumbnail",
]

Pixels = NDArray[np.float64]  # [height, width, channels], in [0, 1]
Codes = NDArray[np.int64]  # [rows, columns], numbers of patches
RESERVED = 32  # tokens of podium/tiny that stand for nothing in its text
SHIFTS = ("none", "noise", "blur", "inverted")
SCALE = 8  # pixels of a PNG for one of ours
ROW = re.compile(r"(?:<\|reserved_[0-9]{1,2}\|>)+")
NUMBER = re.compile(r"<\|reserved_([0-9]{1,2})\|>")


@dataclass(frozen=True, eq=False)
class Codebook:
    """The patches that a picture is made of, one token each."""

    name: str
    patches: NDArray[np.float64]  # [code, height, width, channels]
    signs: Mapping[str, Sequence[float]]  # a character for each of some colours, to show a picture as text

    def __post_init__(self) -> None:
        if self.patches.ndim != 4 or not 0 < len(self.patches) <= RESERVED:
            raise PodiumError(f"{self.name}: a codebook is an array of 1 to {RESERVED} patches with channels.")

    @property
    def side(self) -> int:
        """Pixels of a patch's side."""
        return self.patches.shape[1]

    def drawn(self, codes: Codes) -> Pixels:
        """The picture of these codes; codes that the book does not have are shown as its first patch."""
        codes = np.where(codes < len(self.patches), codes, 0)
        rows, columns = codes.shape
        laid = self.patches[codes].transpose(0, 2, 1, 3, 4)
        return laid.reshape(rows * self.side, columns * self.side, -1)

    def sketch(self, codes: Codes) -> str:
        """The picture as lines of characters, the signs of the nearest colours; twice each, since they are narrow."""
        pixels, colours = self.drawn(codes), np.array(list(self.signs.values()))
        found = ((pixels[:, :, None] - colours) ** 2).sum(-1).round(9).argmin(-1)
        signs = list(self.signs)
        return "\n".join("".join(2 * signs[i] for i in row) for row in found.tolist())

    def read(self, pixels: Pixels) -> Codes:
        """The code of the nearest patch for each patch of the picture; of equally near ones, the first."""
        height, width, channels = pixels.shape
        if height % self.side or width % self.side or channels != self.patches.shape[3]:
            raise PodiumError(
                f"A picture of {height} x {width} pixels and {channels} channels cannot be cut into the patches of "
                f"{self.name}, {self.side} x {self.side} with {self.patches.shape[3]}."
            )
        rows, columns = height // self.side, width // self.side
        cut = pixels.reshape(rows, self.side, columns, self.side, channels).transpose(0, 2, 1, 3, 4)
        flat, known = cut.reshape(rows, columns, 1, -1), self.patches.reshape(1, 1, len(self.patches), -1)
        return np.argmin(((flat - known) ** 2).sum(-1).round(9), axis=-1)


def as_tokens(codes: Codes) -> str:
    """The codes as reserved tokens of the model, a line for each row."""
    return joined("\n", (Pieces(ModelTokens(*(f"<|reserved_{code}|>" for code in row))) for row in codes.tolist()))


def pictures_in(text: str) -> Iterator[tuple[str, Codes | None]]:
    """A prompt or an observation as texts and pictures in turn: each text with the codes after it, None at the end.

    Lines of equally many tokens, one below the other, are the rows of one picture.
    """
    rest, before, rows = 0, "", list[list[int]]()
    for match in ROW.finditer(text):
        row, between = [int(number) for number in NUMBER.findall(match[0])], text[rest : match.start()]
        if rows and (between != "\n" or len(row) != len(rows[0])):
            yield before, np.array(rows)
            rows = []
        if not rows:
            before = between
        rows.append(row)
        rest = match.end()
    if rows:
        yield before, np.array(rows)
    yield text[rest:], None


# Changes of a picture


def shifted(pixels: Pixels, shift: str, strength: float, seed: object) -> Pixels:
    """The picture as a changed world shows it.

    `noise`: a normal deviate of standard deviation `strength` / 2 is added to every value; `blur`: a share `strength`
    of each pixel is replaced by the mean of its neighbourhood of 3 x 3; `inverted`: every value is replaced by its
    complement, whatever the strength.
    """
    if shift == "none":
        return pixels
    if shift == "noise":
        rng = Random(f"noise/{seed}")
        deviates = np.array([rng.gauss(0.0, 1.0) for _ in range(pixels.size)])
        return np.clip(pixels + strength / 2 * deviates.reshape(pixels.shape), 0, 1)
    if shift == "blur":
        around = np.pad(pixels, ((1, 1), (1, 1), (0, 0)), mode="edge")
        means = np.lib.stride_tricks.sliding_window_view(around, (3, 3), axis=(0, 1)).mean((-2, -1))
        return (1 - strength) * pixels + strength * means
    if shift == "inverted":
        return 1 - pixels
    raise PodiumError(f"There is no shift {shift!r} of pictures. {nearest(shift, SHIFTS)}")


def thumbnail(pixels: Pixels, factor: int, ground: Sequence[float]) -> Pixels:
    """A smaller picture: of each block of pixels, the one that stands out most from the ground."""
    height, width, channels = pixels.shape
    if factor < 1 or height % factor or width % factor:
        raise PodiumError(f"A picture of {height} x {width} pixels cannot be made {factor} times smaller.")
    blocks = pixels.reshape(height // factor, factor, width // factor, factor, channels)
    flat = blocks.transpose(0, 2, 1, 3, 4).reshape(height // factor, width // factor, factor * factor, channels)
    outstanding = ((flat - np.array(ground)) ** 2).sum(-1).round(9).argmax(-1)
    return np.take_along_axis(flat, outstanding[:, :, None, None], axis=2)[:, :, 0]


# For people


def sketched(text: str, codebook: Codebook | None) -> str:
    """The text with its pictures as lines of characters; as it is without a codebook."""
    if codebook is None:
        return text
    shown = ""
    for before, codes in pictures_in(text):
        shown += before.removeprefix("\n") if shown.endswith("\n") else before
        if codes is not None:
            shown = shown.rstrip(" \n") + "\n" + codebook.sketch(codes) + "\n"
    return shown.removesuffix("\n")


def png(pixels: Pixels, scale: int = SCALE) -> bytes:
    """The picture as a PNG file."""
    values = np.rint(255 * np.clip(pixels, 0, 1)).astype(np.uint8).repeat(scale, 0).repeat(scale, 1)
    height, width, channels = values.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), values.reshape(height, -1)], axis=1)  # filter 0: as it is

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body
