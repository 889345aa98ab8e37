"""Which methods of the catalogue combine: all pairs, one method with all others, and what stands in the way."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podium.method import STAGES, Method
from podium.methods.catalogue import CATALOGUE, get
from podium.methods.combination import Combination, changed_stages, combine

__all__ = ["Matrix", "matrix", "row"]


@dataclass(frozen=True)
class Matrix:
    """What comes of every ordered pair of methods."""

    stages: Mapping[str, tuple[str, ...]]  # by method: where it changes something
    pairs: Mapping[tuple[str, str], Combination]

    def counts(self) -> Counter[str]:
        """How many pairs combine: yes, care, no."""
        return Counter(pair.verdict for pair in self.pairs.values())

    def shares(self) -> dict[tuple[str, str], float]:
        """Of the pairs in which one method acts at a stage and the other at another: the share that combines."""
        tried: Counter[tuple[str, str]] = Counter()
        works: Counter[tuple[str, str]] = Counter()
        for (first, second), pair in self.pairs.items():
            for cell in ((x, y) for x in self.stages[first] for y in self.stages[second]):
                tried[cell] += 1
                works[cell] += pair.method is not None
        return {(x, y): works[x, y] / tried[x, y] for x in STAGES for y in STAGES if tried[x, y]}

    def obstacles(self) -> Counter[str]:
        """How many pairs each kind of conflict keeps apart, by the first conflict of each."""
        return Counter(_kind(pair.conflicts[0]) for pair in self.pairs.values() if pair.conflicts)

    def data(self) -> dict[str, Any]:
        """Everything as plain data, by first and then by second method."""
        found: dict[str, Any] = {slug: {"stages": list(stages), "with": {}} for slug, stages in self.stages.items()}
        for (first, second), pair in self.pairs.items():
            found[first]["with"][second] = pair.data()
        return found


def matrix(slugs: Sequence[str] | None = None) -> Matrix:
    """All pairs of these methods, by default of the whole catalogue."""
    held = {slug: get(slug) for slug in (CATALOGUE if slugs is None else slugs)}
    pairs = {(a, b): combine(held[a], held[b]) for a in held for b in held if a != b}
    return Matrix({slug: changed_stages(method) for slug, method in held.items()}, pairs)


def row(method: Method) -> dict[str, Combination]:
    """One method with every other of the catalogue."""
    return {slug: combine(method, get(slug)) for slug in CATALOGUE if slug != method.name}


def _kind(conflict: str) -> str:
    """A conflict without the names of those who have it."""
    if conflict.startswith("Both "):
        return conflict.partition(":")[0]
    need = re.search(r"needs the column '([^']+)'", conflict)
    return f"Needs {need[1]}, which nothing before it writes" if need else conflict.partition(":")[0].rstrip(".")
