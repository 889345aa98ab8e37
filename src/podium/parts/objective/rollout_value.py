"""The value of a whole rollout: that of a value head after everything that was written."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.signal import Signal

__all__ = ["last_value", "score_signal"]


def score_signal(role: str, head: int | None = None) -> Signal:
    """The values of a role, by one of its heads or by all."""
    return Signal("value", of=role) if head is None else Signal("value", of=role, head=head)


def last_value(batch: Batch, signal: Signal) -> Tensor:
    """[rollout] or [rollout, head] a signal at the last token of each rollout; 0 for a rollout without tokens."""
    value = batch[signal]
    last = batch.last("token", "rollout", where=batch.action).nonzero().reshape(-1)
    none = value.new_zeros(len(batch), *value.shape[1:])
    return none.index_copy(0, batch.link("token", "rollout")[last], value[last])
