"""The batch: flat columns for each level of token ⊂ step ⊂ rollout ⊂ group ⊂ batch, and the links between them.

A batch is immutable: its methods return new columns or new batches. Levels, links and the operations along them come
from `podium.core.hierarchy`, columns from `podium.core.frame`. This module adds what is specific to rollouts: what
counts and what is trained, partitions, relations, and random draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.columns import COUNTS, TRAINS, Column, Origin, Purpose
from podium.core.errors import PodiumError, nearest
from podium.core.frame import Frame
from podium.core.identity import hashed, mixed, uniform
from podium.core.keys import combine_keys
from podium.core.partition import Partition
from podium.core.relation import Relation, pairs
from podium.core.signal import Signal
from podium.core.validate import check_link, check_relation, checked_column, checked_segments, validated

__all__ = ["Batch", "Origin", "Purpose", "Relation"]


class Batch(Frame):
    """Rollouts as columns. Made by `Batch.from_rollouts`, `Batch.from_padded` or `Batch.from_rewards`."""

    def __init__(
        self,
        links: Mapping[tuple[str, str], Tensor],
        columns: Mapping[str, Any] | None = None,
        *,
        sizes: Mapping[str, int] | None = None,
        relations: Mapping[str, Relation] | None = None,
        seed: int = 0,
        step: str = "turn",
    ) -> None:
        self._links, self._sizes, self._columns, self._relations = validated(
            links, columns or {}, sizes or {}, relations or {}
        )
        self.seed = seed
        self._step = step
        self._cache = {}

    @classmethod
    def _trusted(
        cls,
        links: dict[tuple[str, str], Tensor],
        sizes: dict[str, int],
        columns: dict[str, Column],
        relations: dict[str, Relation],
        seed: int,
        step: str,
        cache: dict[Any, Any] | None = None,
    ) -> Batch:
        batch = cls.__new__(cls)
        batch._links, batch._sizes, batch._columns, batch._relations = links, sizes, columns, relations
        batch.seed, batch._step = seed, step
        batch._cache = {} if cache is None else cache
        return batch

    def __len__(self) -> int:
        return self.size("rollout")

    def __repr__(self) -> str:
        sizes = ", ".join(f"{n} {level}s" for level, n in self._sizes.items() if level != "batch")
        return f"Batch({sizes}; {', '.join(self._columns)})"

    # -- the same batch with a change ------------------------------------------------------------------------------

    def with_columns(self, columns: Mapping[str, Any] | Mapping[Signal, Any]) -> Batch:
        """The same batch with these columns added or replaced, and relations, whose names have no dot."""
        merged, relations = dict(self._columns), dict(self._relations)
        for key, value in columns.items():
            name = self.name(key)
            if isinstance(value, Relation):
                check_relation(name, value, self._sizes, self.device)
                relations[name] = value
            else:
                merged[name] = checked_column(name, value, self._sizes, self.device, self.dtype)
        return self._changed(columns=merged, relations=relations)

    def without(self, columns: Iterable[str | Signal]) -> Batch:
        """The same batch without these columns."""
        gone = {self.name(c) for c in columns}
        return self._changed(columns={k: v for k, v in self._columns.items() if k not in gone})

    def with_step(self, level: str) -> Batch:
        """The same batch in which the alias `step` means `level`."""
        return self._changed(step=self.level(level))

    def _changed(
        self,
        columns: dict[str, Column] | None = None,
        relations: dict[str, Relation] | None = None,
        step: str | None = None,
    ) -> Batch:
        """Other columns or relations on the same levels; cached links stay valid."""
        columns = self._columns if columns is None else columns
        relations = self._relations if relations is None else relations
        cache = {k: v for k, v in self._cache.items() if k[0] == "link"}
        return Batch._trusted(self._links, self._sizes, columns, relations, self.seed, step or self._step, cache)

    def with_level(self, name: str, index: Tensor, *, of: str = "token", parent: str = "rollout") -> Batch:
        """A named segmentation: `index[i]` is the new level's element that element i of `of` belongs to.

        Elements are numbered over the whole batch, in order along `parent`; each must lie inside one element of it.
        """
        of, parent = self.level(of), self.level(parent)
        if name in self._sizes or name == "step" or not name.isidentifier():
            raise PodiumError(f"A level cannot be named {name!r}: take a new name without dots, such as 'segment'.")
        index, parents = checked_segments(name, index, self.link(of, parent), of, parent)
        links = self._links | {(of, name): index, (name, parent): parents}
        sizes = self._sizes | {name: len(parents)}
        for key in ((of, name), (name, parent)):
            check_link(key, links, sizes)
        return Batch._trusted(links, sizes, self._columns, self._relations, self.seed, self._step)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Batch:
        """The same batch on another device or with another floating type."""
        if dtype is not None and not dtype.is_floating_point:
            raise PodiumError(f"A batch can be converted to a floating type such as torch.float64, not to {dtype}.")

        def moved(held: Mapping[Any, Any]) -> dict[Any, Any]:
            return {k: move(x) if isinstance(x, Tensor) else x for k, x in held.items()}

        def move(x: Tensor) -> Tensor:
            return x.to(device=device, dtype=dtype if x.is_floating_point() else None)

        relations = {
            k: Relation(r.level, move(r.left), move(r.right), moved(r.columns)) for k, r in self._relations.items()
        }
        links, columns = moved(self._links), moved(self._columns)
        return Batch._trusted(links, self._sizes, columns, relations, self.seed, self._step)

    # -- what counts, what is trained ------------------------------------------------------------------------------

    def counted(self, level: str) -> Tensor | None:
        """[level] which elements enter statistics; None: all."""
        level = self.level(level)
        mask = self.action if level == "token" and "token.origin" in self._columns else None
        members = self._made_for(COUNTS)
        if members is not None and self.is_above("rollout", level):
            members = self.spread(members, "rollout", level)
            mask = members if mask is None else mask & members
        return mask

    def trained(self, level: str, *, empty: bool = False) -> Tensor:
        """[level] what is trained: neither given by the world nor dropped by `keep`, in a rollout made for training.

        An element without a trained token is not trained; with `empty=True` that does not matter.
        """
        level = self.level(level)
        base = "token" if "token" in self._sizes and not empty else level
        if not self.is_above("rollout", base):
            base = "rollout"
        mask = self.action if base == "token" else self._everyone(base)
        members = self._made_for(TRAINS)
        if members is not None:
            mask = mask & self.spread(members, "rollout", base)
        for upper, keep in self._marked("keep", base):
            mask = mask & self.spread(keep, upper, base)
        if base == level:
            return mask
        return self.partition(base, level).agg.any(mask)

    def weight(self, level: str = "token") -> Tensor | None:
        """The product of the `weight` and `weight.NAME` columns at and above `level`; None where there are none."""
        product: Tensor | None = None
        for upper, weight in self._marked("weight", level):
            weight = self.spread(weight, upper, level)
            product = weight if product is None else product * weight
        return product

    def _made_for(self, purposes: Sequence[Purpose]) -> Tensor | None:
        """[rollout] whether it was made for one of these purposes; None: all were made for training."""
        purpose = self._numbers("rollout.purpose")
        if purpose is None:
            return None
        return torch.isin(purpose, torch.tensor([int(p) for p in purposes], device=self.device))

    def _marked(self, kind: str, level: str) -> Iterator[tuple[str, Tensor]]:
        """Columns named `kind` or `kind.NAME` at and above `level`: several parts may each write one."""
        for name, column in self._columns.items():
            upper, _, rest = name.partition(".")
            if rest.split(".")[0] == kind and isinstance(column, Tensor) and self.is_above(upper, level):
                yield upper, column

    # -- partitions and relations ----------------------------------------------------------------------------------

    def by(self, level: str, *keys: str | Tensor, where: Tensor | None = None) -> Partition:
        """Partition the elements of `level` by `keys`; elements that do not count never enter its statistics."""
        level = self.level(level)
        if len(keys) == 1 and isinstance(keys[0], str) and (keys[0] == "step" or keys[0] in self._sizes):
            base = self.partition(level, keys[0])  # the cells are the parent's elements, empty ones included
        else:
            index, cells = combine_keys(self.codes(level, *keys), self._sizes[level], self.device)
            base = Partition(index, cells, level=level, ordered=not keys)
        return base.entered_by(self, where)

    def relation(self, name: str) -> Relation:
        if name not in self._relations:
            raise PodiumError(f"The batch has no relation {name!r}. {nearest(name, self._relations)}")
        return self._relations[name]

    @property
    def relations(self) -> tuple[str, ...]:
        return tuple(self._relations)

    def with_relation(self, name: str, relation: Relation) -> Batch:
        return self.with_columns({name: relation})

    def without_relations(self) -> Batch:
        """The same batch with its elements alone."""
        return self._changed(relations={})

    def pairs(self, level: str, parent: str) -> Relation:
        """All ordered pairs of different elements of `level` within an element of `parent`."""
        return pairs(self.partition(level, parent))

    # -- identities, ties, random draws ----------------------------------------------------------------------------

    def identity(self, level: str) -> Tensor:
        """[level] an integer for each element that does not depend on its place in the batch.

        A group is identified by its task, or by the column `group.uid` where several groups share a task.
        """
        level = self.level(level)
        if level == "batch":
            return torch.zeros(1, dtype=torch.long, device=self.device)
        if level == "group":
            return hashed(self._columns["group.uid" if "group.uid" in self._columns else "group.task"], self.device)
        if level == "rollout" and "rollout.uid" in self._columns:
            return hashed(self._columns["rollout.uid"], self.device)
        if level == "rollout":
            index = self._columns["rollout.index"]
            assert isinstance(index, Tensor)
            return mixed(self.spread(self.identity("group"), "group", "rollout") ^ mixed(index.long() + 1))
        if not self.is_above("rollout", level):  # a set of groups is identified by its members
            return mixed(self.partition("group", level).total(self.identity("group")))
        return mixed(self.spread(self.identity("rollout"), "rollout", level) ^ mixed(self.position(level) + 1))

    def ties(self, level: str) -> tuple[Tensor, ...]:
        """What breaks ties between elements of `level`, the first key first; none depends on the order of the rows."""
        level = self.level(level)
        if not self.is_above("rollout", level):
            return (self.identity(level),)
        index, identity = self._columns["rollout.index"], self.identity("rollout")
        assert isinstance(index, Tensor)
        if level == "rollout":
            return index, identity
        return self.spread(index, "rollout", level), self.position(level), self.spread(identity, "rollout", level)

    def random(self, level: str, name: str, width: int | None = None) -> Tensor:
        """[level] uniform numbers in [0, 1) that depend on the seed, `name` and each element's identity alone.

        With `width`, that many for each element: [level, width].
        """
        return uniform(self.identity(level), f"{self.seed}/{name}", width, self.dtype)

    # -- other batches, and ways to make one -----------------------------------------------------------------------

    def take(self, level: str, chosen: Tensor) -> Batch:
        """The batch of the chosen rollouts or groups (a mask, or numbers in the wanted order) and what they hold."""
        from podium.core.subset import take

        return take(self, level, chosen)

    @classmethod
    def concat(cls, batches: Sequence[Batch]) -> Batch:
        """The batches one after another; their groups stay separate."""
        from podium.core.subset import concat

        return concat(batches)

    @classmethod
    def from_rollouts(cls, rollouts: Iterable[Any], **settings: Any) -> Batch:
        """From `podium.core.Rollout` records. See `podium.core.build.from_rollouts`."""
        from podium.core.build import from_rollouts

        return from_rollouts(rollouts, **settings)

    @classmethod
    def from_padded(cls, mask: Tensor, group: Any, columns: Mapping[str, Any] | None = None, **settings: Any) -> Batch:
        """From another library's [B, T] tensors. See `podium.core.build.from_padded`."""
        from podium.core.build import from_padded

        return from_padded(mask, group, columns or {}, **settings)

    @classmethod
    def from_rewards(
        cls, rewards: Tensor | Sequence[float], group: Any, columns: Mapping[str, Any] | None = None
    ) -> Batch:
        """From one reward per rollout and the group of each: enough for outcome advantages."""
        from podium.core.build import from_rewards

        return from_rewards(rewards, group, columns or {})

    def to_padded(self, x: Tensor, fill: float = 0.0) -> Tensor:
        """A value per token as [B, T], at the place each token had in the padded tensors it came from."""
        from podium.core.build import to_padded

        return to_padded(self, x, fill)
