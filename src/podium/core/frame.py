"""Columns at the levels of a hierarchy: names, who wrote the tokens, values across levels and as keys.

Columns are named `level.name` (`rollout.reward`, `token.old.logp`); tensors have the level's size as first dimension,
text and objects are tuples.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor

from podium.core.columns import INHERITED, Column, Origin
from podium.core.errors import PodiumError, nearest
from podium.core.hierarchy import Hierarchy
from podium.core.keys import compact, factorize
from podium.core.signal import Signal

__all__ = ["Frame"]

How = Literal["sum", "mean", "min", "max", "any", "all"]


class Frame(Hierarchy):
    """A hierarchy with columns, for reading."""

    _columns: dict[str, Column]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._columns)

    @property
    def dtype(self) -> torch.dtype:
        """The floating type of the columns."""
        for x in self._columns.values():
            if isinstance(x, Tensor) and x.is_floating_point():
                return x.dtype
        return torch.get_default_dtype()

    # -- by name ----------------------------------------------------------------------------------------------------

    def name(self, column: str | Signal) -> str:
        """The full name of a column, with the alias `step` resolved."""
        name = column.column if isinstance(column, Signal) else column
        level, _, rest = name.partition(".")
        return f"{self._step}.{rest}" if level == "step" else name

    def __contains__(self, column: str | Signal) -> bool:
        name = self.name(column)
        return name in self._columns or self._inherited(name) is not None or self._derived(name)

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

    def _inherited(self, name: str) -> str | None:
        """The level from which `name` is inherited: the finest one above that has it."""
        level, _, rest = name.partition(".")
        if rest.split(".")[0] not in INHERITED or level not in self._sizes:
            return None
        return self._nearest(level, rest)

    def _derived(self, name: str) -> bool:
        """Whether the column follows from the structure, so that it need not be stored."""
        return name in ("rollout.length", "token.position") and "token" in self._sizes

    def _nearest(self, level: str, rest: str) -> str | None:
        """The finest level at or above `level` that has a column `rest`; of equals, the alias `step` wins."""
        having = [x for x in self._sizes if f"{x}.{rest}" in self._columns and self.is_above(x, level)]
        depth = {x: sum(self.is_above(upper, x) for upper in self._sizes) for x in having}
        return max(having, key=lambda x: (depth[x], x == self._step), default=None)

    def _numbers(self, name: str) -> Tensor | None:
        """A stored column of numbers; None: there is none."""
        column = self._columns.get(name)
        assert column is None or isinstance(column, Tensor)
        return column

    def _everyone(self, level: str) -> Tensor:
        return torch.ones(1, dtype=torch.bool, device=self.device).expand(self.size(level))

    # -- who wrote the tokens ---------------------------------------------------------------------------------------

    @property
    def given(self) -> Tensor | None:
        """[token] whether the world wrote it; None: it wrote none."""
        origin = self._numbers("token.origin")
        return None if origin is None else origin == Origin.given

    @property
    def action(self) -> Tensor:
        """[token] whether it is an action of the model: not given by the world."""
        from_world = self.given
        return self._everyone("token") if from_world is None else ~from_world

    @property
    def drawn(self) -> Tensor:
        """[token] whether a sampler drew it, now or in a recorded rollout, so that it has a sampling probability."""
        origin = self._numbers("token.origin")
        if origin is None:
            return self._everyone("token")
        return (origin == Origin.policy) | (origin == Origin.copied)

    # -- across levels ----------------------------------------------------------------------------------------------

    def reduce(self, x: Tensor, source: str, target: str, how: How = "mean", where: Tensor | None = None) -> Tensor:
        """Aggregate a value per `source` up to `target`. Tokens given by the world never enter."""
        if how not in get_args(How):
            raise PodiumError(f"Cannot reduce by {how!r}. {nearest(how, get_args(How))}")
        if self.level(source) == "token" and "token.origin" in self._columns:
            where = self.action if where is None else where & self.action
        result: Tensor = getattr(self.partition(source, target).agg, how)(x, where)
        return result

    def length(self, level: str = "rollout") -> Tensor:
        """Number of action tokens of each rollout (or turn, …)."""
        return self.reduce(self.action.to(self.dtype), "token", level, "sum")

    def spread_column(self, column: str | Signal, target: str = "token") -> Tensor:
        """[target] a column of this level or of one above it, copied down to its elements."""
        return self.spread(self[column], self.name(column).partition(".")[0], target)

    # -- as keys ----------------------------------------------------------------------------------------------------

    def codes(self, level: str, *keys: str | Tensor) -> list[tuple[Tensor, int]]:
        """For each key (a level above, a column at or above `level`, or codes): integer codes and their bound."""
        return [self._codes(self.level(level), key) for key in keys]

    def _codes(self, level: str, key: str | Tensor) -> tuple[Tensor, int]:
        if isinstance(key, Tensor):
            if len(key) != self._sizes[level]:
                raise PodiumError(f"A key has {len(key)} codes for the {self._sizes[level]} {level}s of the batch.")
            return factorize(key, "key", self.device)
        if key in self._sizes or key == "step":
            return self.link(level, key), self.size(key)
        owner, column = self._owner(level, key)
        cached = self._cache.get(("codes", column))
        if cached is None:
            cached = self._cache[("codes", column)] = factorize(self._columns[column], column, self.device)
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

    def history(self, level: str, key: str | Tensor, k: int, parent: str = "rollout") -> tuple[Tensor, Tensor]:
        """Codes of the last `k` values of `key` ending at each element, and whether there are that many."""
        if k < 1:
            raise PodiumError(f"A history of the last {k} values is empty: k must be at least 1.")
        codes, _ = compact(self._codes(self.level(level), key)[0])
        joint = codes
        for back in range(1, k):
            earlier = self.shift(codes + 1, level, parent, by=back, fill=0)  # 0: before the start
            joint, _ = compact(joint * (int(earlier.max()) + 1 if earlier.numel() else 1) + earlier)
        return joint, self.position(level, parent) >= k - 1
