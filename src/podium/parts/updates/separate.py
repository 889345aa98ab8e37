"""An update plan that never mixes two kinds of groups or rollouts in an optimiser step."""

from __future__ import annotations

import math
from collections.abc import Iterator

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.part import Need
from podium.core.updates import PolicyScore, Updates

__all__ = ["SeparateUpdates"]


class SeparateUpdates(Updates):
    """Separate updates for two kinds of groups or rollouts: all of those where `by` is true, then all of the others."""

    by: str = "group.labelled"  # a boolean column of groups or of rollouts
    # Whether mini-batches are measured in the whole batch, so that a kind takes ⌈mini_batches · its share⌉ steps.
    proportional: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by.startswith("rollout.") and self.unit == "group":
            raise PodiumError(f"SeparateUpdates.by = {self.by!r} splits groups: set unit='rollout'.")

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.by,)

    @property
    def single(self) -> bool:
        return False

    def __call__(self, batch: Batch, score: PolicyScore | None = None) -> Iterator[Batch]:
        first, level = batch[self.by], self.by.partition(".")[0]
        for kind in (first, ~first):
            if bool(kind.any()):
                share = float(kind.double().mean()) if self.proportional else 1.0
                steps = math.ceil(round(self.mini_batches * share, 9))
                yield from Updates.__call__(self.replace(mini_batches=steps), batch.take(level, kind), score)
