"""Rollouts that share prefixes, as trees: values of the leaves are backed up to the branching points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.keys import compact

__all__ = ["Forest", "parent_rows"]


@dataclass(frozen=True)
class Forest:
    """A tree for each group of a batch with the level `node`: its vertices are the distinct segments of the rollouts.

    A vertex is identified by the keys on the path to it, so keys may repeat at different depths. The roots, one per
    group, come first. A rollout ends at the vertex of its last token; one without tokens ends at its root.
    """

    parent: Tensor  # [vertex] the vertex above it; a root is its own parent
    depth: Tensor  # [vertex] 0: a root
    vertex: Tensor  # [node of the batch] its vertex
    end: Tensor  # [rollout] the vertex at which it ends

    @classmethod
    def of(cls, batch: Batch) -> Forest:
        device, groups = batch.device, batch.size("group")
        ((key, kinds),) = batch.codes("node", "node.key")
        place = batch.position("node", "rollout")
        vertex = batch.link("node", "group").clone()
        parents, depths = [torch.arange(groups, device=device)], [torch.zeros(groups, dtype=torch.long, device=device)]
        total = groups
        for depth in range(int(place.max()) + 1 if len(place) else 0):
            before = batch.shift(vertex, "node", "rollout") if depth else vertex
            nodes = place == depth
            codes, count = compact(before[nodes] * kinds + key[nodes])
            parent = torch.zeros(count, dtype=torch.long, device=device).index_copy(0, codes, before[nodes])
            vertex = vertex.masked_scatter(nodes, codes + total)
            parents.append(parent)
            depths.append(torch.full_like(parent, depth + 1))
            total += count
        last = batch.last("node", "rollout")
        end = batch.link("rollout", "group").index_copy(0, batch.link("node", "rollout")[last], vertex[last])
        return cls(torch.cat(parents), torch.cat(depths), vertex, end)

    def __len__(self) -> int:
        return len(self.parent)

    @cached_property
    def _levels(self) -> list[Tensor]:
        """The vertices of each depth, the deepest first and without the roots."""
        deepest = int(self.depth.max()) if len(self) else 0
        return [(self.depth == depth).nonzero().reshape(-1) for depth in range(deepest, 0, -1)]

    def total(self, x: Tensor) -> Tensor:
        """[vertex] the sum of x [rollout] over the rollouts that pass through it."""
        sums = torch.zeros(len(self), dtype=x.dtype, device=x.device).index_add(0, self.end, x)
        for vertices in self._levels:
            sums = sums.index_add(0, self.parent[vertices], sums[vertices])
        return sums

    def mean(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        """[vertex] the mean of x [rollout] over the rollouts in `where` that pass through it; 0 without any."""
        wide = x.double()  # so that the mean of equal rewards is that reward
        weight = torch.ones_like(wide) if where is None else where.double()
        return (self.total(wide * weight) / self.total(weight).clamp(min=1)).to(x.dtype)

    def fold(self, x: Tensor, where: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """[vertex] the mean over its children, and their population std; a rollout that ends there counts as a child.

        The value of a vertex without children is that of its rollout; `where` says which rollouts enter.
        """
        dtype, x = x.dtype, x.double()
        weight = torch.ones_like(x) if where is None else where.to(x.dtype)
        zeros = torch.zeros(len(self), dtype=x.dtype, device=x.device)
        total, count = zeros.index_add(0, self.end, x * weight), zeros.index_add(0, self.end, weight)
        value = total / count.clamp(min=1)
        for vertices in self._levels:
            alive = (count[vertices] > 0).to(x.dtype)
            total = total.index_add(0, self.parent[vertices], value[vertices] * alive)
            count = count.index_add(0, self.parent[vertices], alive)
            value = total / count.clamp(min=1)
        square = zeros.index_add(0, self.end, weight * (x - value[self.end]).square())
        for vertices in self._levels:
            deviation = (value[vertices] - value[self.parent[vertices]]).square() * (count[vertices] > 0)
            square = square.index_add(0, self.parent[vertices], deviation)
        return value.to(dtype), (square / count.clamp(min=1)).sqrt().to(dtype)


def parent_rows(batch: Batch) -> Tensor:
    """[rollout] the row of each rollout's parent; −1 if it has none, or none in the batch.

    A parent is sampled before its children: its index is smaller.
    """
    group, index, parent = batch.link("rollout", "group"), batch["rollout.index"].long(), batch["rollout.parent"].long()
    span = int(torch.maximum(index.max(), parent.max())) + 2 if len(batch) else 1
    code, order = (group * span + index).sort()
    code_of_parent = group * span + parent
    place = torch.searchsorted(code, code_of_parent).clamp(max=max(len(code) - 1, 0))
    exists = (code[place] == code_of_parent) & (parent >= 0) & (parent < index)
    return order[place].where(exists, -1)
