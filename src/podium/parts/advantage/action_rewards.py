"""Credit of actions: the outcome compared within the group, plus what each action is worth by itself."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.normalize import Normalizer
from podium.core.part import Advantage, Columns, Need
from podium.core.schedule import Number

__all__ = ["ActionRewards"]


class ActionRewards(Advantage, Normalizer):
    """A_t = z(R) + weight · r_t: z normalises the reward of the rollout within the group, r is a reward of its turn.

    r is not centred: where all rollouts of a group do alike, it alone says what is better. weight = 0 is GRPO.
    """

    reference = "MASHost: Autonomous Multi-Agent System Directed by Reinforcement Learning"
    weight: Number = 0.5
    of: str = "turn.action_reward"  # r

    provides = ("turn.advantage",)
    centred_within = ("group",)

    @property
    def neutral(self) -> ActionRewards:
        return self.replace(weight=0.0)

    @property
    def normalizes(self) -> bool:
        return self.scale != "none"

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.reward", self.of)

    def __call__(self, batch: Batch) -> Columns:
        outcome = self.normalized(batch.by("rollout", "group"), batch["rollout.reward"])
        worth = batch[self.of].to(outcome.dtype)
        return {"turn.advantage": batch.spread(outcome, "rollout", "turn") + float(self.weight) * worth}
