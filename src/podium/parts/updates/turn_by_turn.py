"""Turns updated one after another, each knowing what the updates before it have changed."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.signal import Signal
from podium.core.updates import PolicyScore, Updates

__all__ = ["TurnByTurn"]

OLD = Signal("logp", of="old")


class TurnByTurn(Updates):
    """One pass of updates for each turn, the last turn first, with advantages times the carried ratio ρ.

    After the updates of a turn, ρ ← clip(ρ · clip(e^d, 1 ± c), 1 ± c) with d the mean change of log π over the turn's
    tokens: how much likelier the turns already updated have become. Each turn's old policy is the one before its own
    updates.
    """

    reference = "SeeUPO, https://github.com/modelscope/AgentEvolver"
    order: str = "reverse"  # reverse or sequential
    ratio_clip: float = 0.2  # c; 1 or more: only the upper bound acts
    carry: bool = True  # False: ρ stays 1

    needs = ("token.advantage",)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "order", ("reverse", "sequential"))
        within(self, "ratio_clip", 0)

    def __call__(self, batch: Batch, score: PolicyScore | None = None) -> Iterator[Batch]:
        """The optimiser steps, turn by turn; `score` gives the current log-probabilities, 0 change without it."""
        place = batch.position("turn")
        turns = list(range(int(place.max()) + 1)) if len(place) else []
        order = turns[::-1] if self.order == "reverse" else turns
        carried = torch.ones(len(batch), dtype=batch.dtype, device=batch.device)
        before = None if score is None else score(batch)
        for number in order:
            yield from super().__call__(self.update(batch, place == number, carried, before))
            if score is not None and before is not None and number != order[-1]:
                after = score(batch)
                carried = self.carried(batch, place == number, carried, after - before)
                before = after

    def update(self, batch: Batch, now: Tensor, carried: Tensor, before: Tensor | None) -> Batch:
        """The batch in which the turns `now` alone are trained."""
        columns = {
            "turn.keep.update": now,
            "token.advantage": batch["token.advantage"] * batch.spread(carried, "rollout", "token"),
            "rollout.carried": carried,
        }
        return batch.without([OLD]).with_columns(columns if before is None else columns | {OLD.column: before})

    def carried(self, batch: Batch, now: Tensor, carried: Tensor, change: Tensor) -> Tensor:
        """[rollout] ρ after the updates of the turns `now`, which changed log π of the tokens so much."""
        if not self.carry:
            return carried
        low, high = 1 - self.ratio_clip, 1 + self.ratio_clip
        d = batch.reduce(change, "token", "rollout", "mean", where=batch.spread(now, "turn", "token"))
        return (carried * d.clamp(-10, 10).exp().clamp(low, high)).clamp(low, high)
