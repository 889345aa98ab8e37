"""An update plan that trains turns one after another, with importance ratios carried from turn to turn."""

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
    """Sequential updates of turns, the last one first, with advantages multiplied by the carried importance ratio ρ.

    After the updates of a turn, ρ ← clip(ρ · clip(e^d, 1 ± c), 1 ± c), with d the mean change of log π over the turn's
    tokens: how much more likely the updates have made the turns so far. The old policy of a turn is the one before its
    own updates.
    """

    reference = "SeeUPO, https://github.com/modelscope/AgentEvolver"
    order: str = "reverse"  # reverse or sequential
    ratio_clip: float = 0.2  # c, at least 0; from 1 on only the upper bound acts
    carry: bool = True  # whether ρ is carried; False: ρ stays 1

    needs = ("token.advantage",)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "order", ("reverse", "sequential"))
        within(self, "ratio_clip", 0)

    def __call__(self, batch: Batch, score: PolicyScore | None = None) -> Iterator[Batch]:
        """The optimiser steps, turn by turn; `score` gives the current log-probabilities. Without it ρ stays 1."""
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
        """The batch in which only the turns `now` are trained."""
        columns = {
            "turn.keep.update": now,
            "token.advantage": batch["token.advantage"] * batch.spread(carried, "rollout", "token"),
            "rollout.carried": carried,
        }
        return batch.without([OLD]).with_columns(columns if before is None else columns | {OLD.column: before})

    def carried(self, batch: Batch, now: Tensor, carried: Tensor, change: Tensor) -> Tensor:
        """[rollout] ρ after the updates of the turns `now`; `change` [token] is what they did to log π."""
        if not self.carry:
            return carried
        low, high = 1 - self.ratio_clip, 1 + self.ratio_clip
        d = batch.reduce(change, "token", "rollout", "mean", where=batch.spread(now, "turn", "token"))
        return (carried * d.clamp(-10, 10).exp().clamp(low, high)).clamp(low, high)
