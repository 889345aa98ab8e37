"""Information gain of a turn: how much more likely the right answer has become."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.part import Columns, Reward
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["AnswerGain"]


# The mean log-probability of the right answer's tokens, when the model is made to answer in place of a turn.
ANSWER = Signal("logp", of="old", level="turn", passage="answer", reduce="mean")


class AnswerGain(Reward):
    """Rewards a turn by its information gain about the right answer, and the last turn by the outcome.

        r_t = gain · (p_{t+1} − p_t),  r_T = outcome · R,  p_t = exp(mean log π of the right answer's tokens)

    p_t is taken with the model made to answer in place of turn t, so the gain of a turn is what its observation adds.
    Writes `turn.reward.gain`, and the sum of the gains as `rollout.gain`. gain = 0 leaves the outcome alone.
    """

    reference = "IGPO, https://github.com/GuoqingWang1/IGPO"
    gain: Number = 1.0  # weight of the gains
    outcome: Number = 1.0  # weight of the outcome

    needs = ("rollout.reward", ANSWER)
    provides = ("turn.reward.gain", "rollout.gain")

    def gains(self, batch: Batch) -> Tensor:
        """[turn] p_{t+1} − p_t; 0 at the last turn."""
        p = batch[ANSWER].clamp(max=0).exp()
        return (batch.shift(p, "turn", by=-1) - p).where(~batch.last("turn"), 0)

    def __call__(self, batch: Batch) -> Columns:
        gains, outcome = self.gains(batch), batch.spread(batch["rollout.reward"], "rollout", "turn")
        return {
            "turn.reward.gain": (self.gain * gains).where(~batch.last("turn"), self.outcome * outcome),
            "rollout.gain": batch.reduce(gains, "turn", "rollout", "sum"),
        }
