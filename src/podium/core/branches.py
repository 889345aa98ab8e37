"""Rollouts that share beginnings, seen as trees: what their ends are worth, folded up to where they part."""

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

    A vertex is known by the keys on the way to it, so a key need not be new at every depth. The roots, one a group,
    come first. A rollout ends at the vertex of its last token; one without tokens ends at its root.
    """

    parent: Tensor  # [vertex] the vertex before it; of a root itself
    depth: Tensor  # [vertex] 0: a root
    vertex: Tensor  # [node of the batch] the vertex that it is
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
            here = place == depth
            codes, count = compact(before[here] * kinds + key[here])
            new = torch.zeros(count, dtype=torch.long, device=device).index_copy(0, codes, before[here])
            vertex = vertex.masked_scatter(here, codes + total)
            parents.append(new)
            depths.append(torch.full_like(new, depth + 1))
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
        for here in self._levels:
            sums = sums.index_add(0, self.parent[here], sums[here])
        return sums

    def mean(self, x: Tensor, where: Tensor | None = None) -> Tensor:
        """[vertex] the mean of x [rollout] over the rollouts in `where` that pass through it; 0 without any."""
        own = torch.ones_like(x) if where is None else where.to(x.dtype)
        return self.total(x * own) / self.total(own).clamp(min=1)

    def fold(self, x: Tensor, where: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """[vertex] the mean over its children, and their population std; a rollout that ends there counts as a child.

        The value of a vertex without children is that of its rollout; `where` says which rollouts enter.
        """
        own = torch.ones_like(x) if where is None else where.to(x.dtype)
        zeros = torch.zeros(len(self), dtype=x.dtype, device=x.device)
        total, count = zeros.index_add(0, self.end, x * own), zeros.index_add(0, self.end, own)
        value = total / count.clamp(min=1)
        for here in self._levels:
            alive = (count[here] > 0).to(x.dtype)
            total = total.index_add(0, self.parent[here], value[here] * alive)
            count = count.index_add(0, self.parent[here], alive)
            value = total / count.clamp(min=1)
        square = zeros.index_add(0, self.end, own * (x - value[self.end]).square())
        for here in self._levels:
            apart = (value[here] - value[self.parent[here]]).square() * (count[here] > 0)
            square = square.index_add(0, self.parent[here], apart)
        return value, (square / count.clamp(min=1)).sqrt()


def parent_rows(batch: Batch) -> Tensor:
    """[rollout] where in the batch the parent of each rollout stands; −1 if it has none, or none that is there.

    A parent is sampled before its children: its index is smaller.
    """
    group, index, parent = batch.link("rollout", "group"), batch["rollout.index"].long(), batch["rollout.parent"].long()
    span = int(torch.maximum(index.max(), parent.max())) + 2 if len(batch) else 1
    name, order = (group * span + index).sort()
    wanted = group * span + parent
    place = torch.searchsorted(name, wanted).clamp(max=max(len(name) - 1, 0))
    found = (name[place] == wanted) & (parent >= 0) & (parent < index)
    return order[place].where(found, -1)
