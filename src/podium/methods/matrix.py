"""Which methods of the catalogue combine: all pairs, one method with all others, and which conflicts prevent it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podium.method import STAGES, Method
from podium.methods.catalogue import RECIPES, get
from podium.methods.combination import Combination, changed_stages, combine

__all__ = ["Matrix", "matrix", "row"]


@dataclass(frozen=True)
class Matrix:
    """The combination of every ordered pair of methods."""

    stages: Mapping[str, tuple[str, ...]]  # by method: the stages at which it differs from plain GRPO
    pairs: Mapping[tuple[str, str], Combination]

    def counts(self) -> Counter[str]:
        """How many pairs have each verdict: yes, care, no."""
        return Counter(pair.verdict for pair in self.pairs.values())

    def shares(self) -> dict[tuple[str, str], float]:
        """For each pair of stages: of the pairs whose methods change these stages, the share that combines."""
        tried: Counter[tuple[str, str]] = Counter()
        combined: Counter[tuple[str, str]] = Counter()
        for (first, second), pair in self.pairs.items():
            for cell in ((x, y) for x in self.stages[first] for y in self.stages[second]):
                tried[cell] += 1
                combined[cell] += pair.method is not None
        return {(x, y): combined[x, y] / tried[x, y] for x in STAGES for y in STAGES if tried[x, y]}

    def obstacles(self) -> Counter[str]:
        """How many pairs each kind of conflict prevents; a pair counts by its first conflict."""
        return Counter(_kind(pair.conflicts[0]) for pair in self.pairs.values() if pair.conflicts)

    def data(self) -> dict[str, Any]:
        """Everything as plain data, keyed by the first and then by the second method."""
        data: dict[str, Any] = {slug: {"stages": list(stages), "with": {}} for slug, stages in self.stages.items()}
        for (first, second), pair in self.pairs.items():
            data[first]["with"][second] = pair.data()
        return data


def matrix(slugs: Sequence[str] | None = None) -> Matrix:
    """All ordered pairs of these methods; by default of the whole catalogue."""
    methods = {slug: get(slug) for slug in (RECIPES if slugs is None else slugs)}
    pairs = {(a, b): combine(methods[a], methods[b]) for a in methods for b in methods if a != b}
    return Matrix({slug: changed_stages(method) for slug, method in methods.items()}, pairs)


def row(method: Method) -> dict[str, Combination]:
    """The method combined with every other one of the catalogue."""
    return {slug: combine(method, get(slug)) for slug in RECIPES if slug != method.name}


def _kind(conflict: str) -> str:
    """The kind of a conflict: its message without the names of the methods."""
    if conflict.startswith("Both "):
        return conflict.partition(":")[0]
    need = re.search(r"needs the column '([^']+)'", conflict)
    return f"Needs {need[1]}, which nothing before it writes" if need else conflict.partition(":")[0].rstrip(".")
