"""The gain of a rollout that was rewritten over the rollout as it was."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Need
from podium.parts.advantage.normalize import Normalize

__all__ = ["CounterfactualGain"]


class CounterfactualGain(Normalize):
    """A = R′ − R for a rollout that was rewritten, R′ its reward and R that before; else GRPO's (R − mean) / (std + ε).

    The gain is neither centred nor divided. Without rewritten rollouts it is `Normalize`, number for number.
    """

    reference = "EARL, https://github.com/yue-zhongqi/earl"

    @property
    def needs(self) -> tuple[Need, ...]:
        return (*super().needs, "rollout.rewritten", "rollout.reward_before")

    def __call__(self, batch: Batch) -> Columns:
        gain = batch["rollout.reward"] - batch["rollout.reward_before"]
        advantage = super().__call__(batch)["rollout.advantage"]
        return {"rollout.advantage": gain.to(advantage.dtype).where(batch["rollout.rewritten"].bool(), advantage)}
