"""Random hierarchies as plain Python lists: what the vectorised core is compared with."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import torch
from torch import Tensor

from podium.core import Batch

VALUES = (-2.0, -0.5, 0.0, 0.1, 0.5, 1.0, 3.0)  # few enough that ties and constant cells are common


@dataclass(frozen=True)
class Hierarchy:
    """Tokens in turns in rollouts in groups, each level by the parent of each element."""

    tokens: list[int]  # the turn of each token
    turns: list[int]  # the rollout of each turn
    rollouts: list[int]  # the group of each rollout
    random: random.Random

    @property
    def sizes(self) -> dict[str, int]:
        return {
            "token": len(self.tokens),
            "turn": len(self.turns),
            "rollout": len(self.rollouts),
            "group": max(self.rollouts) + 1,
            "batch": 1,
        }

    def link(self, child: str, parent: str) -> list[int]:
        index = list(range(self.sizes[child]))
        for level, above in (("token", self.tokens), ("turn", self.turns), ("rollout", self.rollouts)):
            if child == parent:
                return index
            if child == level:
                index = [above[i] for i in index]
                child = {"token": "turn", "turn": "rollout", "rollout": "group"}[level]
        return [0] * len(index) if parent == "batch" else index

    def numbers(self, level: str, values: Sequence[float] = VALUES) -> list[float]:
        return [self.random.choice(values) for _ in range(self.sizes[level])]

    def mask(self, level: str, share: float = 0.7) -> list[bool]:
        return [self.random.random() < share for _ in range(self.sizes[level])]

    def batch(self, columns: dict[str, Any] | None = None) -> Batch:
        links = {("token", "turn"): self.tokens, ("turn", "rollout"): self.turns, ("rollout", "group"): self.rollouts}
        found = {key: torch.tensor(index, dtype=torch.long) for key, index in links.items()}
        sizes = {level: self.sizes[level] for level in ("turn", "rollout", "group")}
        return Batch(found, columns, sizes=sizes)


@st.composite
def hierarchies(draw: st.DrawFn, empty: bool = True) -> Hierarchy:
    """Up to four groups of up to four rollouts of up to three turns of up to three tokens, rollouts in any order."""
    fewest = 0 if empty else 1
    lengths = st.lists(st.integers(fewest, 3), min_size=fewest, max_size=3)  # the tokens of the turns of a rollout
    groups = draw(st.lists(st.lists(lengths, min_size=1, max_size=4), min_size=1, max_size=4))
    rows = [(number, turns) for number, group in enumerate(groups) for turns in group]
    order = draw(st.randoms(use_true_random=False))
    order.shuffle(rows)
    turns = [row for row, (_, lengths) in enumerate(rows) for _ in lengths]
    tokens = [t for t, n in enumerate(n for _, lengths in rows for n in lengths) for _ in range(n)]
    return Hierarchy(tokens, turns, [group for group, _ in rows], order)


def cells(keys: Sequence[Any], where: Sequence[bool] | None = None) -> dict[Any, list[int]]:
    """The elements of each cell that enter; a cell that nobody enters has an empty list."""
    found: dict[Any, list[int]] = defaultdict(list)
    for i, key in enumerate(keys):
        if where is None or where[i]:
            found[key].append(i)
        else:
            found[key] += []
    return found


def transform(keys: Sequence[Any], statistic: Callable[[list[int]], float], where: Any = None) -> list[float]:
    """A statistic of each element's cell."""
    values = {key: statistic(members) for key, members in cells(keys, where).items()}
    return [values[key] for key in keys]


def mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float:
    weights = [1.0] * len(values) if weights is None else weights
    total = sum(weights)
    return sum(w * v for v, w in zip(values, weights, strict=True)) / total if total else 0.0


def std(values: Sequence[float], unbiased: bool = True, weights: Sequence[float] | None = None) -> float:
    weights = [1.0] * len(values) if weights is None else weights
    size = sum(weights) - (1 if unbiased else 0)
    centre = mean(values, weights)
    square = sum(w * (v - centre) ** 2 for v, w in zip(values, weights, strict=True))
    return math.sqrt(square / size) if size > 0 else 0.0


def quantile(values: Sequence[float], q: float) -> float:
    if not values:
        return math.nan
    ordered, place = sorted(values), q * (len(values) - 1)
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def runs(parents: Sequence[int]) -> list[list[int]]:
    """The elements of each parent in their order."""
    found: dict[int, list[int]] = defaultdict(list)
    for i, parent in enumerate(parents):
        found[parent].append(i)
    return list(found.values())


def tensor(values: Sequence[Any]) -> Tensor:
    """Numbers as float64, truth values as they are."""
    kind = torch.bool if values and isinstance(values[0], bool) else torch.float64
    return torch.tensor(values, dtype=kind)


def close(x: Tensor, expected: Sequence[float], tolerance: float = 1e-12) -> None:
    """Assert equality up to rounding; NaN and infinity equal themselves."""
    torch.testing.assert_close(
        x.to(torch.float64), tensor([float(v) for v in expected]), rtol=tolerance, atol=tolerance, equal_nan=True
    )
