"""Keys and values of texts that may be continued, kept for a while."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict

from torch import Tensor

from podium.policy.pack import common_prefix

__all__ = ["Prefixes"]

Ids = tuple[int, ...]
Held = tuple[Tensor, Tensor]  # keys and values [layers, length, key-value heads, head size]


class Prefixes:
    """A bounded store by token ids; the least recently used goes first."""

    def __init__(self, tokens: int) -> None:
        self.limit, self.size = tokens, 0
        self._held: OrderedDict[Ids, Held] = OrderedDict()
        # In lexicographic order the text that has most in common with another is its neighbour.
        self._sorted: list[Ids] = []

    def __len__(self) -> int:
        return len(self._held)

    def clear(self) -> None:
        self._held.clear()
        self._sorted.clear()
        self.size = 0

    def wants(self, ids: Ids) -> bool:
        """Whether adding this text would bring something new."""
        return 0 < len(ids) <= self.limit and self._match(ids)[1] < len(ids)

    def add(self, ids: Ids, keys: Tensor, values: Tensor) -> None:
        place = bisect_left(self._sorted, ids)
        if place and common_prefix(self._sorted[place - 1], ids) == len(self._sorted[place - 1]):
            self._drop(self._sorted[place - 1])  # the new text contains it
        insort(self._sorted, ids)
        self._held[ids] = (keys, values)
        self.size += len(ids)
        while self.size > self.limit:
            self._drop(next(iter(self._held)))

    def _drop(self, ids: Ids) -> None:
        del self._held[ids]
        del self._sorted[bisect_left(self._sorted, ids)]
        self.size -= len(ids)

    def _match(self, ids: Ids) -> tuple[Ids, int]:
        place = bisect_left(self._sorted, ids)
        best: tuple[Ids, int] = ((), 0)
        for neighbour in self._sorted[max(0, place - 1) : place + 1]:
            shared = common_prefix(neighbour, ids)
            if shared > best[1]:
                best = (neighbour, shared)
        return best

    def find(self, ids: Ids) -> tuple[Ids, Held, int] | None:
        """The held text that begins most like `ids`, and how many tokens they share."""
        name, shared = self._match(ids)
        if not shared:
            return None
        self._held.move_to_end(name)
        return name, self._held[name], shared
