"""The reward of a reward model: a role with a value head scores every rollout."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number
from podium.parts.objective.rollout_value import last_value, score_signal

__all__ = ["ModelReward"]


class ModelReward(Reward):
    """Rewards a rollout by a reward model's score s of it: world · r + weight · s.

    With squash = "sigmoid" s is replaced by σ(s), the probability that a model fitted to feedback of 0 and 1 predicts.
    The score is read before the last token, which is the end-of-turn token where the rollout has ended. weight = 0 and
    world = 1 is the world's reward r.
    """

    role: str = "rm"  # a role with a value head, such as a model of `podium rewards fit`
    head: int | None = None  # which of its heads, from 0; None: it has one
    squash: str = "none"  # none or sigmoid
    weight: Number = 1.0  # of the score
    world: Number = 0.0  # weight of the world's reward; 0: the reward model alone

    provides = ("rollout.reward", "rollout.reward.model")

    def __post_init__(self) -> None:
        one_of(self, "squash", ("none", "sigmoid"))
        within(self, "head", 0, optional=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.reward", score_signal(self.role, self.head))

    def __call__(self, batch: Batch) -> Columns:
        score = last_value(batch, score_signal(self.role, self.head))
        if score.dim() > 1:
            heads = score.shape[1]
            raise PodiumError(f"The role {self.role!r} has {heads} heads: set ModelReward.head, 0 to {heads - 1}.")
        model = self.weight * (score.sigmoid() if self.squash == "sigmoid" else score)
        return {"rollout.reward": self.world * batch["rollout.reward"] + model, "rollout.reward.model": model}
