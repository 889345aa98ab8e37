"""TODO Text that has gone wrong as text: cut off, repeating itself, or garbled."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number

__all__ = ["Override"]


class Override(Reward):
    """The reward is `value` where a column says so, whatever it was."""

    where: str = "rollout.degenerate"  # a boolean column of rollouts
    value: Number = -1.0

    provides = ("rollout.reward", "rollout.reward.override")

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.reward", self.where)

    def __call__(self, batch: Batch) -> Columns:
        reward = batch["rollout.reward"]
        changed = reward.masked_fill(batch[self.where].bool(), float(self.value))
        return {"rollout.reward": changed, "rollout.reward.override": changed - reward}
