"""Keys and values of texts that may be continued, kept until they are the least recently used."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable

from torch import Tensor

from podium.policy.forward.pack import common_prefix

__all__ = ["KeptPrefixes"]

Ids = tuple[int, ...]
# Keys and values [layers, length, key-value heads, head size], or the line of a cache that still holds them.
CachedKV = tuple[Tensor, Tensor] | int


class KeptPrefixes:
    """An LRU cache of keys and values by token ids, bounded in tokens; `on_evict` is called with what is dropped."""

    def __init__(self, tokens: int, on_evict: Callable[[CachedKV], None] = lambda held: None) -> None:
        self.limit, self.size, self.on_evict = tokens, 0, on_evict
        self._held: OrderedDict[Ids, CachedKV] = OrderedDict()
        # In lexicographic order the text that has most in common with another is its neighbour.
        self._sorted: list[Ids] = []

    def __len__(self) -> int:
        return len(self._held)

    def clear(self) -> None:
        for ids in list(self._held):
            self._drop(ids)

    def wants(self, ids: Ids) -> bool:
        """Whether this text fits and is not a prefix of one that is kept."""
        return 0 < len(ids) <= self.limit and self._match(ids)[1] < len(ids)

    def add(self, ids: Ids, held: CachedKV) -> None:
        place = bisect_left(self._sorted, ids)
        if place and common_prefix(self._sorted[place - 1], ids) == len(self._sorted[place - 1]):
            self._drop(self._sorted[place - 1])  # the new text contains it
        insort(self._sorted, ids)
        self._held[ids] = held
        self.size += len(ids)
        while self.size > self.limit:
            self._drop(next(iter(self._held)))

    def _drop(self, ids: Ids) -> None:
        self.on_evict(self.take(ids))

    def take(self, ids: Ids) -> CachedKV:
        """Remove a text and return what was kept of it."""
        del self._sorted[bisect_left(self._sorted, ids)]
        self.size -= len(ids)
        return self._held.pop(ids)

    def _match(self, ids: Ids) -> tuple[Ids, int]:
        place = bisect_left(self._sorted, ids)
        best: tuple[Ids, int] = ((), 0)
        for neighbour in self._sorted[max(0, place - 1) : place + 1]:
            shared = common_prefix(neighbour, ids)
            if shared > best[1]:
                best = (neighbour, shared)
        return best

    def find(self, ids: Ids) -> tuple[Ids, CachedKV, int] | None:
        """The kept text that shares the longest prefix with `ids`, its keys and values, and the prefix's length."""
        name, shared = self._match(ids)
        if not shared:
            return None
        self._held.move_to_end(name)
        return name, self._held[name], shared
