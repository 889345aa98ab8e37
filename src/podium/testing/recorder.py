"""A batch that remembers which columns are read from it by name.

What belongs to the batch itself is not recorded: links, tokens of the world, purposes, `keep` and `weight` where they
are asked for through the batch's own verbs (`action`, `counted`, `trained`, `weight`), and the identities behind
`random`. `batch["rollout.purpose"]` by name is recorded, as is `batch["rollout.length"]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.relation import Relation
from podium.core.signal import Signal

__all__ = ["Recorder", "RecordingDict", "recording"]


class RecordingDict(dict[str, Any]):
    """A mapping that notes the names it is asked for."""

    def __init__(self, items: Mapping[str, Any], log: set[str], prefix: str = "") -> None:
        super().__init__(items)
        self.log, self.prefix = log, prefix

    def __getitem__(self, name: str) -> Any:
        self.log.add(self.prefix + name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.log.add(self.prefix + name)
        return super().get(name, default)


class Recorder(Batch):
    """See `recording`."""

    log: set[str]
    own: frozenset[str]  # columns that the part has added itself

    def _same(self, batch: Batch, own: Iterable[str] = ()) -> Batch:
        return recording(batch, self.log, self.own | frozenset(own))

    def _note(self, name: str) -> None:
        if name not in self.own:
            self.log.add(name)

    def __getitem__(self, column: str | Signal) -> Any:
        self._note(self.name(column))
        return super().__getitem__(column)

    def _owner(self, level: str, key: str) -> tuple[str, str]:
        owner, column = super()._owner(level, key)
        self._note(column)
        return owner, column

    def relation(self, name: str) -> Relation:
        original = super().relation(name)
        if name in self.own:
            return original
        if not original.columns:
            self._note(name)
        return Relation(
            original.level, original.left, original.right, RecordingDict(original.columns, self.log, f"{name}.")
        )

    def identity(self, level: str) -> Tensor:
        return _plain(self).identity(level)

    def with_columns(self, columns: Mapping[str, Any] | Mapping[Signal, Any]) -> Batch:
        return self._same(super().with_columns(columns), map(self.name, columns))

    def without(self, columns: Iterable[str | Signal]) -> Batch:
        return self._same(super().without(columns))

    def with_level(self, name: str, index: Tensor, *, of: str = "token", parent: str = "rollout") -> Batch:
        return self._same(super().with_level(name, index, of=of, parent=parent))

    def with_step(self, level: str) -> Batch:
        return self._same(super().with_step(level))

    def take(self, level: str, chosen: Tensor) -> Batch:
        return self._same(super().take(level, chosen))

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Batch:
        return self._same(super().to(device, dtype))


def recording(batch: Batch, log: set[str], own: frozenset[str] = frozenset()) -> Recorder:
    """The same batch, which adds the full name of every column read from it to `log`."""
    parts = (batch._links, batch._sizes, batch._columns, batch._relations, batch.seed, batch._step)
    recorder = Recorder._trusted(*parts)
    assert isinstance(recorder, Recorder)
    recorder.log, recorder.own = log, own
    return recorder


def _plain(batch: Batch) -> Batch:
    return Batch._trusted(batch._links, batch._sizes, batch._columns, batch._relations, batch.seed, batch._step)
