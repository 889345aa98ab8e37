"""TODO What a turn has found out: how much nearer the answer is, or how much its feedback changed the next action."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Annotate, Columns
from podium.core.signal import Signal

__all__ = ["FeedbackGain"]


SEEN = Signal("logp", of="old")


BLIND = Signal("logp", of="old", level="turn", passage="blind", reduce="mean")


class FeedbackGain(Annotate):
    """`turn.gain`: the mean over the tokens of the next action of log π(with the feedback) − log π(without it).

    Without it, a placeholder of the same length stands in place of what the world said. The turn that asked gets the
    gain; the last turn, and one that was told nothing, get 0.
    """

    reference = "InfoPO, https://github.com/kfq20/InfoPO"

    needs = (SEEN, BLIND, "turn.informed")
    provides = ("turn.gain", "rollout.gain")

    def __call__(self, batch: Batch) -> Columns:
        informed = batch.reduce(batch[SEEN], "token", "turn", "mean") - batch[BLIND]
        told = batch["turn.informed"] & (batch.length("turn") > 0)
        gain = batch.shift(informed.where(told, 0), "turn", by=-1)
        return {"turn.gain": gain, "rollout.gain": batch.reduce(gain, "turn", "rollout", "sum")}
