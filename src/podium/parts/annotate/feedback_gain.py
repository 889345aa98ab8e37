"""Information gain of feedback: how much the environment's reply changed the likelihood of the next action."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Annotate, Columns
from podium.core.signal import Signal

__all__ = ["FeedbackGain"]


WITH_FEEDBACK = Signal("logp", of="old")
# The same action, scored in a context whose last feedback is replaced by a placeholder of the same length.
WITHOUT_FEEDBACK = Signal("logp", of="old", level="turn", passage="blind", reduce="mean")


class FeedbackGain(Annotate):
    """Writes `turn.gain`, the information gain of a turn's feedback about the next action.

        gain_t = mean over the tokens of action t + 1 of log π(with the feedback of t) − log π(without it)

    `rollout.gain` is its sum. Without the feedback, a placeholder of the same length stands in its place. The last turn
    and turns without feedback get 0.
    """

    reference = "InfoPO, https://github.com/kfq20/InfoPO"

    needs = (WITH_FEEDBACK, WITHOUT_FEEDBACK, "turn.informed")
    provides = ("turn.gain", "rollout.gain")

    def __call__(self, batch: Batch) -> Columns:
        difference = batch.reduce(batch[WITH_FEEDBACK], "token", "turn", "mean") - batch[WITHOUT_FEEDBACK]
        has_feedback = batch["turn.informed"] & (batch.length("turn") > 0)
        gain = batch.shift(difference.where(has_feedback, 0), "turn", by=-1)
        return {"turn.gain": gain, "rollout.gain": batch.reduce(gain, "turn", "rollout", "sum")}
