"""A score that counts only beside a right answer."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number

__all__ = ["GatedMix"]


class GatedMix(Reward):
    """Mixes a score s into the reward r of right answers: (1 − weight) · r + weight · s, and 0 for wrong ones.

    With `normalize` s is divided by the largest of the group. Other modes: `all` mixes for right and wrong answers
    alike, `wrong` adds weight · s to the reward of wrong ones. weight = 0 is the reward alone. Below weight = 1 no
    wrong answer exceeds a right one.
    """

    reference = "CaRR, https://github.com/THUDM/CaRR"
    score: str = "rollout.rubric"  # s, a column in [0, 1]
    weight: Number = 0.3  # in [0, 1]
    mode: str = "right"  # right, all or wrong
    normalize: bool = True

    provides = ("rollout.reward", "rollout.reward.score")

    def __post_init__(self) -> None:
        within(self, "weight", 0, 1)
        one_of(self, "mode", ("right", "all", "wrong"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.reward", self.score)

    @property
    def neutral(self) -> GatedMix:
        return self.replace(weight=0.0)

    def __call__(self, batch: Batch) -> Columns:
        reward, score = batch["rollout.reward"], batch[self.score].to(batch.dtype)
        if self.normalize:
            most = batch.spread(batch.by("rollout", "group").agg.max(score), "group", "rollout")
            score = score / most.where(most > 0, 1)
        right = reward > 0
        part = self.weight * score
        if self.mode == "wrong":
            part = part.where(~right, 0)
            return {"rollout.reward": reward + part, "rollout.reward.score": part}
        if self.mode == "right":
            part = part.where(right, 0)
        return {"rollout.reward": (1 - self.weight) * reward + part, "rollout.reward.score": part}
