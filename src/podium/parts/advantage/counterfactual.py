"""The gain of a rollout that was rewritten over the rollout as it was."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.normalize import Normalizer
from podium.core.part import Advantage, Columns

__all__ = ["CounterfactualGain"]


class CounterfactualGain(Advantage, Normalizer):
    """A = R′ − R for a rollout that was rewritten, R′ its reward and R that before; else GRPO's (R − mean) / (std + ε).

    The gain is neither centred nor divided. Without rewritten rollouts it is `Normalize`, number for number.
    """

    reference = "EARL, https://github.com/yue-zhongqi/earl"

    needs = ("rollout.reward", "rollout.rewritten", "rollout.reward_before")
    provides = ("rollout.advantage",)

    @property
    def normalizes(self) -> bool:
        return self.scale != "none"

    def __call__(self, batch: Batch) -> Columns:
        reward = batch["rollout.reward"]
        advantage = self.normalized(batch.by("rollout", "group"), reward)
        gain = (reward - batch["rollout.reward_before"]).to(advantage.dtype)
        return {"rollout.advantage": gain.where(batch["rollout.rewritten"].bool(), advantage)}
