"""The batch: flat columns for each level of token ⊂ step ⊂ rollout ⊂ group ⊂ batch, and the links between them.

A batch is a value: verbs return new columns or new batches, never change one. Columns are named `level.name`
(`rollout.reward`, `token.old.logp`); tensors have the level's size as first dimension, text and objects are tuples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from podium.core.errors import PodiumError, nearest
from podium.core.hierarchy import Hierarchy
from podium.core.partition import Partition, combine, compact
from podium.core.signal import Signal

__all__ = ["Batch", "Column", "Origin", "Purpose", "Relation"]

Column = Tensor | tuple[Any, ...]
Links = Mapping[tuple[str, str], Tensor]
How = Literal["sum", "mean", "min", "max", "any", "all"]


class Origin(IntEnum):
    """Who wrote a token. Everything but `given` is an action that may be trained."""

    policy = 0
    given = 1  # an observation, a template: never trained
    hint = 2
    expert = 3
    copied = 4
    forced = 5


class Purpose(IntEnum):
    """Why a rollout was made: whether it counts in statistics and whether it is trained."""

    train = 0
    vote = 1  # counts, not trained
    baseline = 2  # neither: read by name
    probe = 3  # only recorded
    demo = 4  # trained, does not count
    replaced = 5  # only recorded


COUNTS = (Purpose.train, Purpose.vote)
TRAINS = (Purpose.train, Purpose.demo)
ENUMS: dict[str, type[IntEnum]] = {"token.origin": Origin, "rollout.purpose": Purpose}
# These mean the same at every level, so a finer level inherits them from the nearest coarser one that has them.
INHERITED = ("advantage",)


@dataclass(frozen=True)
class Relation:
    """Pairs of elements of one level with columns of their own, such as a judge's verdict."""

    level: str
    left: Tensor  # [pair]
    right: Tensor  # [pair]
    columns: Mapping[str, Tensor] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.columns:
            raise PodiumError(f"The relation has no column {name!r}. {nearest(name, self.columns)}")
        return self.columns[name]

    def sum(self, x: Tensor, side: Literal["left", "right"], size: int) -> Tensor:
        """Σ of a value per pair over the pairs in which an element stands on `side`; one value per element."""
        return x.new_zeros(size).index_add(0, self.left if side == "left" else self.right, x)


class Batch(Hierarchy):
    """Rollouts as columns. Made by `Batch.from_rollouts`, `Batch.from_padded` or `Batch.from_rewards`."""

    def __init__(
        self,
        links: Links,
        columns: Mapping[str, Any] | None = None,
        *,
        sizes: Mapping[str, int] | None = None,
        relations: Mapping[str, Relation] | None = None,
        seed: int = 0,
        step: str = "turn",
    ) -> None:
        from podium.core.validate import validated

        self._links, self._sizes, self._columns, self._relations = validated(
            links, columns or {}, sizes or {}, relations or {}
        )
        self.seed = seed
        self._step = step
        self._cache: dict[Any, Any] = {}

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

    # -- structure -------------------------------------------------------------------------------------------------

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._columns)

    @property
    def dtype(self) -> torch.dtype:
        """The floating type of the batch's columns."""
        for x in self._columns.values():
            if isinstance(x, Tensor) and x.is_floating_point():
                return x.dtype
        return torch.get_default_dtype()

    def __len__(self) -> int:
        return self.size("rollout")

    def __repr__(self) -> str:
        sizes = ", ".join(f"{n} {level}s" for level, n in self._sizes.items() if level != "batch")
        return f"Batch({sizes}; {', '.join(self._columns)})"

    def with_level(self, name: str, index: Tensor, *, of: str = "token", parent: str = "rollout") -> Batch:
        """A named segmentation: `index[i]` is the new level's element that element i of `of` belongs to.

        Elements are numbered over the whole batch, in order along `parent`; each must lie inside one element of it.
        """
        from podium.core.validate import check_link

        of, parent = self.level(of), self.level(parent)
        if name in self._sizes or name == "step" or not name.isidentifier():
            raise PodiumError(f"A level cannot be named {name!r}: take a new name without dots, such as 'segment'.")
        if len(index) != self._sizes[of]:
            raise PodiumError(f"{len(index)} numbers of {name}s for {self._sizes[of]} {of}s.")
        index, size = compact(index)
        up = self.link(of, parent)
        own = Partition(index, size).agg.first(up)
        if not torch.equal(own.index_select(0, index), up):
            raise PodiumError(
                f"A {name} crosses the border of a {parent}: number the {name}s over the whole batch, "
                f"so that no two {parent}s share one."
            )
        links = dict(self._links) | {(of, name): index, (name, parent): own}
        sizes = self._sizes | {name: size}
        for key in ((of, name), (name, parent)):
            check_link(key, links, sizes)
        return Batch._trusted(links, sizes, self._columns, self._relations, self.seed, self._step)

    def with_step(self, level: str) -> Batch:
        """The same batch in which the alias `step` means `level`."""
        parts = (self._links, self._sizes, self._columns, self._relations)
        return Batch._trusted(*parts, self.seed, self.level(level), self._structure_cache())

    # -- columns ---------------------------------------------------------------------------------------------------

    def name(self, column: str | Signal) -> str:
        """The full name of a column, with the alias `step` resolved."""
        name = column.column if isinstance(column, Signal) else column
        level, _, rest = name.partition(".")
        return f"{self._step}.{rest}" if level == "step" else name

    def __contains__(self, column: str | Signal) -> bool:
        name = self.name(column)
        return name in self._columns or self._inherited(name) is not None or self._derived(name)

    def _inherited(self, name: str) -> str | None:
        """The level from which `name` is inherited: the finest one above that has it."""
        level, _, rest = name.partition(".")
        if rest.split(".")[0] not in INHERITED or level not in self._sizes:
            return None
        return self._nearest(level, rest)

    def _nearest(self, level: str, rest: str) -> str | None:
        """The finest level at or above `level` that has a column `rest`; beside each other, the alias `step` wins."""
        having = [x for x in self._sizes if f"{x}.{rest}" in self._columns and self.is_above(x, level)]
        depth = {x: sum(self.is_above(upper, x) for upper in self._sizes) for x in having}
        return max(having, key=lambda x: (depth[x], x == self._step), default=None)

    def _derived(self, name: str) -> bool:
        """Whether the column follows from the structure, so that it is there without having been given."""
        return name in ("rollout.length", "token.position") and "token" in self._sizes

    def __getitem__(self, column: str | Signal) -> Any:
        name = self.name(column)
        if name in self._columns:
            return self._columns[name]
        upper = self._inherited(name)
        if upper is not None:
            level, _, rest = name.partition(".")
            x = self._columns[f"{upper}.{rest}"]
            assert isinstance(x, Tensor)
            return self.spread(x, upper, level)
        if self._derived(name):
            return self.length() if name == "rollout.length" else self.position("token")
        raise PodiumError(f"The batch has no column {name!r}. {nearest(name, self._columns)}")

    def get(self, column: str | Signal, default: Any = None) -> Any:
        return self[column] if self.__contains__(column) else default

    def with_columns(self, columns: Mapping[str, Any] | Mapping[Signal, Any]) -> Batch:
        """The same batch with these columns added or replaced."""
        from podium.core.validate import checked_column

        merged = dict(self._columns)
        for key, value in columns.items():
            name = self.name(key)
            merged[name] = checked_column(name, value, self._sizes, self.device, self.dtype)
        return Batch._trusted(
            self._links, self._sizes, merged, self._relations, self.seed, self._step, self._structure_cache()
        )

    def without(self, columns: Iterable[str | Signal]) -> Batch:
        """The same batch without these columns."""
        gone = {self.name(c) for c in columns}
        kept = {k: v for k, v in self._columns.items() if k not in gone}
        return Batch._trusted(
            self._links, self._sizes, kept, self._relations, self.seed, self._step, self._structure_cache()
        )

    def without_relations(self) -> Batch:
        """The same batch with its elements alone."""
        parts = (self._links, self._sizes, self._columns)
        return Batch._trusted(*parts, {}, self.seed, self._step, self._structure_cache())

    def _structure_cache(self) -> dict[Any, Any]:
        return {k: v for k, v in self._cache.items() if k[0] == "link"}

    def length(self, level: str = "rollout") -> Tensor:
        """Number of action tokens of each rollout (or turn, …)."""
        return self.reduce(self.action.to(self.dtype), "token", level, "sum")

    # -- who counts, who is trained --------------------------------------------------------------------------------

    @property
    def given(self) -> Tensor | None:
        """[token] tokens that the world wrote; None: there are none."""
        origin = self._columns.get("token.origin")
        if origin is None:
            return None
        assert isinstance(origin, Tensor)
        return origin == Origin.given

    @property
    def action(self) -> Tensor:
        """[token] tokens that the model is responsible for: not given by the world."""
        given = self.given
        return self._everyone("token") if given is None else ~given

    @property
    def drawn(self) -> Tensor:
        """[token] tokens that a sampler drew, now or in a recorded rollout: they have a probability there."""
        origin = self._columns.get("token.origin")
        if origin is None:
            return self._everyone("token")
        assert isinstance(origin, Tensor)
        return (origin == Origin.policy) | (origin == Origin.copied)

    def _everyone(self, level: str) -> Tensor:
        return torch.ones(1, dtype=torch.bool, device=self.device).expand(self.size(level))

    def _purposes(self, members: Sequence[Purpose]) -> Tensor | None:
        purpose = self._columns.get("rollout.purpose")
        if purpose is None:
            return None
        assert isinstance(purpose, Tensor)
        return torch.isin(purpose, torch.tensor([int(m) for m in members], device=self.device))

    def counted(self, level: str) -> Tensor | None:
        """Who enters statistics at `level`; None: everyone."""
        level = self.level(level)
        mask = self.action if level == "token" and "token.origin" in self._columns else None
        members = self._purposes(COUNTS)
        if members is not None and self.is_above("rollout", level):
            members = self.spread(members, "rollout", level)
            mask = members if mask is None else mask & members
        return mask

    def trained(self, level: str, *, empty: bool = False) -> Tensor:
        """Who is trained at `level`: not given, not dropped by `keep` at any level, made for training.

        `empty=True` counts those who would be, had they a token to train.
        """
        level = self.level(level)
        base = "token" if "token" in self._sizes and not empty else level
        if not self.is_above("rollout", base):
            base = "rollout"
        mask = self.action if base == "token" else self._everyone(base)
        members = self._purposes(TRAINS)
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

    def _marked(self, kind: str, level: str) -> Iterator[tuple[str, Tensor]]:
        """Columns named `kind` or `kind.NAME` at and above `level`: several parts may each write one."""
        for name, column in self._columns.items():
            upper, _, rest = name.partition(".")
            if rest.split(".")[0] == kind and isinstance(column, Tensor) and self.is_above(upper, level):
                yield upper, column

    # -- verbs across levels ---------------------------------------------------------------------------------------

    def reduce(self, x: Tensor, source: str, target: str, how: How = "mean", where: Tensor | None = None) -> Tensor:
        """Aggregate a value per `source` up to `target`. Tokens given by the world never enter."""
        if how not in get_args(How):
            raise PodiumError(f"Cannot reduce by {how!r}. {nearest(how, get_args(How))}")
        if self.level(source) == "token" and "token.origin" in self._columns:
            where = self.action if where is None else where & self.action
        result: Tensor = getattr(self.partition(source, target).agg, how)(x, where)
        return result

    def codes(self, level: str, *keys: str | Tensor) -> list[tuple[Tensor, int]]:
        """For each key (a level above, a column at or above `level`, or codes): integer codes and their bound."""
        return [self._codes(self.level(level), key) for key in keys]

    def _codes(self, level: str, key: str | Tensor) -> tuple[Tensor, int]:
        if isinstance(key, Tensor):
            if len(key) != self._sizes[level]:
                raise PodiumError(f"A key has {len(key)} codes for the {self._sizes[level]} {level}s of the batch.")
            return _factorize(key, "key", self.device)
        if key in self._sizes or key == "step":
            return self.link(level, key), self.size(key)
        owner, column = self._owner(level, key)
        cached = self._cache.get(("codes", column))
        if cached is None:
            cached = self._cache[("codes", column)] = _factorize(self._columns[column], column, self.device)
        codes, bound = cached
        return self.spread(codes, owner, level), bound

    def _owner(self, level: str, key: str) -> tuple[str, str]:
        """The nearest level at or above `level` that has column `key`."""
        named = self.name(key)
        if named in self._columns:
            return self.level(named.partition(".")[0]), named
        upper = self._nearest(level, key)
        if upper is not None:
            return upper, f"{upper}.{key}"
        options = [c.partition(".")[2] for c in self._columns] + list(self._sizes)
        raise PodiumError(f"No level or column {key!r} at or above {level!r}. {nearest(key, options)}")

    def by(self, level: str, *keys: str | Tensor, where: Tensor | None = None) -> Partition:
        """Partition the elements of `level` by `keys`; those who do not count never enter its statistics."""
        level = self.level(level)
        if len(keys) == 1 and isinstance(keys[0], str) and (keys[0] == "step" or keys[0] in self._sizes):
            base = self.partition(level, keys[0])  # the cells are the parent's elements, empty ones included
        else:
            index, cells = combine(self.codes(level, *keys), self._sizes[level], self.device)
            base = Partition(index, cells, level=level, ordered=not keys)
        return base.entered_by(self, where)

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

    def history(self, level: str, key: str | Tensor, k: int, parent: str = "rollout") -> tuple[Tensor, Tensor]:
        """Codes of the last `k` values of `key` ending at each element, and whether there are that many."""
        if k < 1:
            raise PodiumError(f"A history of the last {k} values is empty: k must be at least 1.")
        codes, _ = compact(self._codes(self.level(level), key)[0])
        place = self.position(level, parent)
        joint = codes
        for back in range(1, k):
            earlier = self.shift(codes + 1, level, parent, by=back, fill=0)  # 0: before the start
            joint, _ = compact(joint * (int(earlier.max()) + 1 if earlier.numel() else 1) + earlier)
        return joint, place >= k - 1

    # -- relations, subsets, random draws --------------------------------------------------------------------------

    def relation(self, name: str) -> Relation:
        if name not in self._relations:
            raise PodiumError(f"The batch has no relation {name!r}. {nearest(name, self._relations)}")
        return self._relations[name]

    def with_relation(self, name: str, relation: Relation) -> Batch:
        from podium.core.validate import check_relation

        check_relation(name, relation, self._sizes, self.device)
        relations = self._relations | {name: relation}
        parts = (self._links, self._sizes, self._columns, relations)
        return Batch._trusted(*parts, self.seed, self._step, self._structure_cache())

    def pairs(self, level: str, parent: str) -> Relation:
        """All ordered pairs of different elements of `level` within an element of `parent`."""
        cells = self.partition(level, parent)
        # Each element stands on the left once for every element of its parent.
        partners = cells.spread(cells.lengths())
        left = torch.arange(len(cells), device=self.device).repeat_interleave(partners)
        right = cells.members(cells.index)
        different = left != right
        return Relation(self.level(level), left[different], right[different])

    def take(self, level: str, chosen: Tensor) -> Batch:
        """The batch of the chosen rollouts or groups (a mask, or numbers in the wanted order) and what they hold."""
        from podium.core.subset import take

        return take(self, level, chosen)

    @classmethod
    def concat(cls, batches: Sequence[Batch]) -> Batch:
        """One batch after another; groups stay apart."""
        from podium.core.subset import concat

        return concat(batches)

    def random(self, level: str, name: str, width: int | None = None) -> Tensor:
        """[level] uniform numbers in [0, 1) that depend on the seed, `name` and each element's identity alone.

        With a `width`, so many for each element: [level, width].
        """
        level = self.level(level)
        salt = int.from_bytes(
            hashlib.blake2b(f"{self.seed}/{name}".encode(), digest_size=8).digest(), "little", signed=True
        )
        state = _mix(self.identity(level) ^ salt)
        if width is not None:
            state = _mix(state[:, None] ^ _mix(torch.arange(1, width + 1, device=self.device)))
        # The upper bits of a 64-bit number, as many as the floating type holds exactly.
        bits = 53 if self.dtype == torch.float64 else 24
        return ((state >> (64 - bits)) & ((1 << bits) - 1)).to(self.dtype) * 2.0**-bits

    def identity(self, level: str) -> Tensor:
        """[level] an integer for each element that does not depend on where it stands in the batch.

        Groups are known by their task: two groups of one task are told apart by a column `group.uid`.
        """
        level = self.level(level)
        if level == "batch":
            return torch.zeros(1, dtype=torch.long, device=self.device)
        if level == "group":
            return self._hashed("group.uid" if "group.uid" in self._columns else "group.task")
        if level == "rollout" and "rollout.uid" in self._columns:
            return self._hashed("rollout.uid")
        if level == "rollout":
            index = self._columns["rollout.index"]
            assert isinstance(index, Tensor)
            return _mix(self.spread(self.identity("group"), "group", "rollout") ^ _mix(index.long() + 1))
        if not self.is_above("rollout", level):  # a set of groups is known by its members
            return _mix(self.partition("group", level).total(self.identity("group")))
        return _mix(self.spread(self.identity("rollout"), "rollout", level) ^ _mix(self.position(level) + 1))

    def _hashed(self, column: str) -> Tensor:
        values = self._columns[column]
        if isinstance(values, Tensor):
            return _mix(values.double().view(torch.long) if values.is_floating_point() else values.long())
        digests = [hashlib.blake2b(repr(v).encode(), digest_size=8).digest() for v in values]
        return torch.tensor([int.from_bytes(d, "little", signed=True) for d in digests], device=self.device)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Batch:
        """The same batch on another device or with another floating type."""
        if dtype is not None and not dtype.is_floating_point:
            raise PodiumError(f"A batch can be converted to a floating type such as torch.float64, not to {dtype}.")

        def move(x: Any) -> Any:
            if not isinstance(x, Tensor):
                return x
            return x.to(device=device, dtype=dtype if x.is_floating_point() else None)

        relations = {
            k: Relation(r.level, move(r.left), move(r.right), {c: move(x) for c, x in r.columns.items()})
            for k, r in self._relations.items()
        }
        return Batch._trusted(
            {k: move(v) for k, v in self._links.items()},
            self._sizes,
            {k: move(v) for k, v in self._columns.items()},
            relations,
            self.seed,
            self._step,
        )

    # -- ways to make one ------------------------------------------------------------------------------------------

    @classmethod
    def from_rollouts(cls, rollouts: Iterable[Any], **settings: Any) -> Batch:
        """From `podium.core.Rollout` records. See `podium.core.build.from_rollouts`."""
        from podium.core.build import from_rollouts

        return from_rollouts(rollouts, **settings)

    @classmethod
    def from_padded(cls, mask: Tensor, group: Any, columns: Mapping[str, Any] | None = None, **settings: Any) -> Batch:
        """From a neighbour's [B, T] tensors. See `podium.core.build.from_padded`."""
        from podium.core.build import from_padded

        return from_padded(mask, group, columns or {}, **settings)

    @classmethod
    def from_rewards(
        cls, rewards: Tensor | Sequence[float], group: Any, columns: Mapping[str, Any] | None = None
    ) -> Batch:
        """From one reward a rollout and the group of each: enough for outcome advantages."""
        from podium.core.build import from_rewards

        return from_rewards(rewards, group, columns or {})

    def to_padded(self, x: Tensor, fill: float = 0.0) -> Tensor:
        """A value per token as [B, T], at the place each token had in the padded tensors it came from."""
        from podium.core.build import to_padded

        return to_padded(self, x, fill)


def _factorize(column: Column, name: str, device: torch.device) -> tuple[Tensor, int]:
    """Integer codes for the values of a column."""
    if isinstance(column, Tensor):
        values, codes = torch.unique(column, return_inverse=True, dim=None if column.dim() == 1 else 0)
        return codes, len(values)
    table: dict[Any, int] = {}
    try:
        numbers = [table.setdefault(v, len(table)) for v in column]
    except TypeError as error:
        raise PodiumError(f"{name!r} cannot be a key, since its values cannot be compared: {error}.") from error
    return torch.tensor(numbers, dtype=torch.long, device=device), len(table)


_M1, _M2 = -49064778989728563, -4265267296055464877  # splitmix64's multipliers as signed numbers


def _mix(x: Tensor) -> Tensor:
    """A bijection of 64-bit integers whose output looks random (splitmix64's finaliser)."""
    x = x + -7046029254386353131
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * _M1
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * _M2
    return x ^ ((x >> 31) & ((1 << 33) - 1))
