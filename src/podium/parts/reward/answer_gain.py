"""What a turn has found out: how much nearer the answer is, or how much its feedback changed the next action."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.part import Columns, Reward
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["AnswerGain"]


ANSWER = Signal("logp", of="old", level="turn", passage="answer", reduce="mean")


class AnswerGain(Reward):
    """r_t = p_{t+1} − p_t for a turn that another follows, the outcome for the last one.

    p_t = exp(mean log π of the right answer's tokens) when the model must answer in place of turn t: the gain of a
    turn is what its observation adds to that.
    """

    reference = "IGPO, https://github.com/GuoqingWang1/IGPO"
    gain: Number = 1.0  # weight of the gains
    outcome: Number = 1.0  # and of the outcome

    needs = ("rollout.reward", ANSWER)
    provides = ("turn.reward.gain", "rollout.gain")

    def gains(self, batch: Batch) -> Tensor:
        """[turn] p_{t+1} − p_t; 0 at the last one."""
        p = batch[ANSWER].exp()
        return (batch.shift(p, "turn", by=-1) - p).where(~batch.last("turn"), 0)

    def __call__(self, batch: Batch) -> Columns:
        gains, outcome = self.gains(batch), batch.spread(batch["rollout.reward"], "rollout", "turn")
        return {
            "turn.reward.gain": (self.gain * gains).where(~batch.last("turn"), self.outcome * outcome),
            "rollout.gain": batch.reduce(gains, "turn", "rollout", "sum"),
        }
