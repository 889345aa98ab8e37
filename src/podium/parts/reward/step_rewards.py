"""Token rewards gathered at the ends of steps."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Need, Reward

__all__ = ["StepRewards"]


class StepRewards(Reward):
    """Gathers token rewards at the ends of steps: the last token of a step has the sum of the step's rewards.

    The other tokens have 0, so that the total of an answer stays the same. A step ends at the tokens that `ends` marks
    and with the answer; without `ends`, the whole answer is one step.
    """

    reference = "PRIME, https://github.com/PRIME-RL/PRIME"
    of: str = "token.reward.process"  # the column of tokens that is read and written
    ends: str = ""  # a boolean column of tokens; empty: the last token alone

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.of, *((self.ends,) if self.ends else ()))

    @property
    def provides(self) -> tuple[str, ...]:
        return (self.of,)

    def __call__(self, batch: Batch) -> Columns:
        c = batch[self.of].where(batch.action, 0)
        ends = batch.last("token", "rollout", where=batch.action)
        if self.ends:
            ends = ends | (batch[self.ends] & batch.action)
        inside = 1 - batch.shift(ends.to(c.dtype), "token", "rollout")  # a sum begins anew after the end of a step
        return {self.of: batch.scan(c, "token", "rollout", decay=inside, reverse=False).where(ends, 0)}
