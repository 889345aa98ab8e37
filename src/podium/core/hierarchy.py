"""The hierarchy of a batch: its levels, the links between them, and the operations that need nothing else."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from podium.core import order
from podium.core.errors import PodiumError, nearest
from podium.core.partition import Partition

__all__ = ["Hierarchy"]


class Hierarchy:
    """Levels joined by links: token ⊂ step ⊂ rollout ⊂ group ⊂ batch, and alternative segmentations to the step."""

    _links: dict[tuple[str, str], Tensor]  # (child, parent): for each child, the parent it belongs to
    _sizes: dict[str, int]
    _step: str  # the level that the alias `step` means
    _cache: dict[Any, Any]

    @property
    def levels(self) -> tuple[str, ...]:
        return tuple(self._sizes)

    @property
    def device(self) -> torch.device:
        return self._links["rollout", "group"].device

    def level(self, name: str) -> str:
        """Resolve the alias `step` and refuse unknown levels."""
        name = self._step if name == "step" else name
        if name not in self._sizes:
            raise PodiumError(f"The batch has no level {name!r}. {nearest(name, self._sizes)}")
        return name

    def size(self, level: str) -> int:
        return self._sizes[self.level(level)]

    # -- links ------------------------------------------------------------------------------------------------------

    def link(self, child: str, parent: str) -> Tensor:
        """For each element of `child`, the element of `parent` that it belongs to."""
        child, parent = self.level(child), self.level(parent)
        key = ("link", child, parent)
        if key not in self._cache:
            self._cache[key] = self._find_link(child, parent)
        link: Tensor = self._cache[key]
        return link

    def _find_link(self, child: str, parent: str) -> Tensor:
        size = self._sizes[child]
        if child == parent:
            return torch.arange(size, device=self.device)
        if parent == "batch":
            return torch.zeros(1, dtype=torch.long, device=self.device).expand(size)
        path = self._path(child, parent)
        if not path:
            raise PodiumError(f"{parent!r} is not above {child!r}: a {child} does not belong to one {parent}.")
        links = [self._links[step] for step in pairwise(path)]
        index = links[0]
        for link in links[1:]:
            # Where each parent has one child (most often, one turn per rollout), their numbers are the same.
            if not torch.equal(link, torch.arange(len(link), device=self.device)):
                index = link.index_select(0, index)
        return index

    def _path(self, child: str, parent: str) -> tuple[str, ...]:
        """The levels from `child` up to `parent` by the fewest links; empty if there is no way."""
        paths: list[tuple[str, ...]] = [(child,)]
        for path in paths:
            if path[-1] == parent:
                return path
            paths += [(*path, upper) for lower, upper in self._links if lower == path[-1]]
        return (child, parent) if parent == "batch" else ()

    def is_above(self, parent: str, child: str) -> bool:
        """Whether every element of `child` belongs to one of `parent`."""
        return bool(self._path(self.level(child), self.level(parent)))

    # -- values across levels ---------------------------------------------------------------------------------------

    def spread(self, x: Tensor, source: str, target: str) -> Tensor:
        """Copy a value per `source` down to its elements of `target`."""
        source, target = self.level(source), self.level(target)
        if len(x) != self._sizes[source]:
            raise PodiumError(f"{len(x)} values for the {self._sizes[source]} {source}s of the batch.")
        if source == target:
            return x
        if source == "batch":
            return x.expand(self._sizes[target], *x.shape[1:])
        return self.partition(target, source).spread(x)

    def partition(self, child: str, parent: str) -> Partition:
        """The elements of `child` in cells that are the elements of `parent`, empty ones included; all enter."""
        child, parent = self.level(child), self.level(parent)
        key = ("link", child, parent, "partition")
        if key not in self._cache:
            # The elements of a rollout are in order; the rollouts of a group are in any order.
            ordered = self.is_above("rollout", parent)
            link = self.link(child, parent)
            self._cache[key] = Partition(link, self._sizes[parent], level=child, of=parent, ordered=ordered)
        cached: Partition = self._cache[key]
        return cached

    # -- operations along a parent ---------------------------------------------------------------------------------

    def scan(
        self, x: Tensor, level: str, parent: str = "rollout", *, decay: float | Tensor = 1.0, reverse: bool = True
    ) -> Tensor:
        """y_t = x_t + decay_t · y_{t+1} along each parent (y_{t−1} with reverse=False); 0 beyond its ends."""
        return order.scan(x, self.partition(level, parent), decay, reverse)

    def shift(self, x: Tensor, level: str, parent: str = "rollout", *, by: int = 1, fill: float | int = 0) -> Tensor:
        """The value `by` elements earlier in the same parent (later if negative); `fill` beyond its ends."""
        return order.shift(x, self.partition(level, parent), by, fill)

    def diff(self, x: Tensor, level: str, parent: str = "rollout", *, start: float = 0.0) -> Tensor:
        """x_t − x_{t−1} along each parent; the first minus `start`."""
        return x - self.shift(x, level, parent, by=1, fill=start)

    def position(self, level: str, parent: str = "rollout") -> Tensor:
        """0, 1, 2, … along each parent."""
        return order.position(self.partition(level, parent))

    def first(self, level: str, parent: str = "rollout", where: Tensor | None = None) -> Tensor:
        """True at the first element (of those in `where`) of each parent."""
        return order.first(self.partition(level, parent), where)

    def last(self, level: str, parent: str = "rollout", where: Tensor | None = None) -> Tensor:
        """True at the last element (of those in `where`) of each parent."""
        return order.last(self.partition(level, parent), where)

    def following(
        self, x: Tensor, level: str, parent: str = "rollout", *, where: Tensor, fill: float | Tensor = 0.0
    ) -> Tensor:
        """The value at the next element in `where` of the same parent, else `fill`: a number, or one per parent."""
        return order.following(x, self.partition(level, parent), where, fill)
