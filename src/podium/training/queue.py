"""What is trained of what was kept: the oldest first; the rest waits or is cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

__all__ = ["take_oldest"]

Item = TypeVar("Item")


def take_oldest(
    items: Sequence[Item], wanted: int, *, fewer: bool = False
) -> tuple[Sequence[Item] | None, Sequence[Item]]:
    """The first `wanted` items and the rest; None and all of them while there are too few, unless `fewer` will do."""
    if len(items) < wanted and not fewer:
        return None, items
    return items[:wanted], items[wanted:]
