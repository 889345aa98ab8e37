"""Probes: texts beside the batch that a model scores, and the columns that come of it."""

from __future__ import annotations

from typing import Any

from podium.core.batch import Batch
from podium.core.signal import Signal
from podium.core.value import Value

__all__ = ["Columns", "Probe"]

Columns = dict[str, Any]


class Probe(Value):
    """Texts to score, by whom, and what their scores say of the batch. A part lists those it relies on in `probes`."""

    @property
    def signals(self) -> tuple[Signal, ...]:
        """What is computed for the tokens of the texts."""
        return ()

    @property
    def provides(self) -> tuple[str, ...]:
        """The columns of the batch that it writes."""
        return ()

    def texts(self, batch: Batch) -> Batch | None:
        """The texts as rollouts, whose tokens follow their training context; None: there is nothing to ask."""
        raise NotImplementedError

    def columns(self, batch: Batch, scored: Batch) -> Columns:
        """Columns of `batch` from the texts with their signals."""
        raise NotImplementedError
