"""Pictures among token ids: the places of a picture in a context are numbers that say which picture it is.

They lie beyond every vocabulary. So contexts that differ in their pictures differ as tuples of numbers, in prefix
caches and everywhere else, and nothing but the model's own forward pass has to know about pictures.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from podium.core.errors import PodiumError

__all__ = ["FIRST", "ids_of", "in_order", "picture_number", "with_placeholder", "split_of"]

FIRST = 1 << 62  # the lowest id of a picture
PLACES = 14  # bits for the place within a picture
HASH = 48  # bits of the picture's digest


def picture_number(data: bytes) -> int:
    """The number of a picture, from its bytes."""
    return int.from_bytes(hashlib.sha256(data).digest()[: HASH // 8], "big")


def ids_of(number: int, count: int) -> range:
    """The ids of the places of a picture."""
    if count >= 1 << PLACES:
        raise PodiumError(f"A picture takes {count:,} tokens, more than {(1 << PLACES) - 1:,}: make it smaller.")
    first = FIRST | number << PLACES
    return range(first, first + count)


def split_of(token: int) -> tuple[int, int]:
    """The number of the picture that an id belongs to, and the place in it."""
    return (token & (FIRST - 1)) >> PLACES, token & ((1 << PLACES) - 1)


def with_placeholder(ids: Iterable[int], stand_in: int) -> list[int]:
    """The ids with that of the model's own placeholder in place of those of pictures."""
    return [stand_in if i >= FIRST else i for i in ids]


def in_order(ids: Sequence[int]) -> list[int]:
    """The numbers of the pictures in a context, in order; a picture that begins twice is there twice."""
    found = [split_of(i) for i in ids if i >= FIRST]
    return [number for number, place in found if place == 0]
