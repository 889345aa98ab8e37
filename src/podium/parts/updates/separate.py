"""Kinds of groups that are never in the same optimiser step."""

from __future__ import annotations

from collections.abc import Iterator

from podium.core.batch import Batch
from podium.core.part import Need
from podium.core.updates import PolicyScore, Updates

__all__ = ["SeparateUpdates"]


class SeparateUpdates(Updates):
    """All updates of the groups of which `by` is true, then all of the others."""

    by: str = "group.labelled"  # a boolean column of groups

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.by,)

    @property
    def single(self) -> bool:
        return False

    def __call__(self, batch: Batch, score: PolicyScore | None = None) -> Iterator[Batch]:
        first = batch[self.by]
        for kind in (first, ~first):
            if bool(kind.any()):
                yield from super().__call__(batch.take("group", kind), score)
