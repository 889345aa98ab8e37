"""Keys and values of texts that may be continued, kept for a while."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable

from torch import Tensor

from podium.policy.forward.pack import common_prefix

__all__ = ["Prefixes"]

Ids = tuple[int, ...]
# Keys and values [layers, length, key-value heads, head size], or where in a cache they still are.
Held = tuple[Tensor, Tensor] | int


class Prefixes:
    """A bounded store by token ids; the least recently used goes first, and `gone` is told."""

    def __init__(self, tokens: int, gone: Callable[[Held], None] = lambda held: None) -> None:
        self.limit, self.size, self.gone = tokens, 0, gone
        self._held: OrderedDict[Ids, Held] = OrderedDict()
        # In lexicographic order the text that has most in common with another is its neighbour.
        self._sorted: list[Ids] = []

    def __len__(self) -> int:
        return len(self._held)

    def clear(self) -> None:
        for ids in list(self._held):
            self._drop(ids)

    def wants(self, ids: Ids) -> bool:
        """Whether adding this text would bring something new."""
        return 0 < len(ids) <= self.limit and self._match(ids)[1] < len(ids)

    def add(self, ids: Ids, held: Held) -> None:
        place = bisect_left(self._sorted, ids)
        if place and common_prefix(self._sorted[place - 1], ids) == len(self._sorted[place - 1]):
            self._drop(self._sorted[place - 1])  # the new text contains it
        insort(self._sorted, ids)
        self._held[ids] = held
        self.size += len(ids)
        while self.size > self.limit:
            self._drop(next(iter(self._held)))

    def _drop(self, ids: Ids) -> None:
        self.gone(self.take(ids))

    def take(self, ids: Ids) -> Held:
        """What is held of a text, which is no longer kept."""
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

    def find(self, ids: Ids) -> tuple[Ids, Held, int] | None:
        """The held text that begins most like `ids`, and how many tokens they share."""
        name, shared = self._match(ids)
        if not shared:
            return None
        self._held.move_to_end(name)
        return name, self._held[name], shared
