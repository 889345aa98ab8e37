"""A rule, a format and a reward model in one number."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import one_of
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number

__all__ = ["HybridReward"]


class HybridReward(Reward):
    """rule · r + format · f + model · σ(s): r from the world's rule, f from the format, s a reward model's score.

    `squash="threshold"` counts a score as 1 where it is above `threshold`, else 0.
    """

    reference = "Skywork R1V2, https://github.com/SkyworkAI/Skywork-R1V"
    rule: Number = 1.0
    format: Number = 0.5
    model: Number = 0.5
    formatted: str | None = "rollout.answered"  # a column of rollouts, 1 where the format is as asked for
    score: str | None = None  # a column of rollouts; None: there is no reward model
    squash: str = "sigmoid"
    threshold: Number = 0.0  # the score from which on a rollout is accepted, if squash is threshold

    provides = ("rollout.reward", "rollout.reward.rule", "rollout.reward.format", "rollout.reward.model")

    def __post_init__(self) -> None:
        one_of(self, "squash", ("sigmoid", "threshold"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.reward", *(c for c in (self.formatted, self.score) if c is not None))

    def __call__(self, batch: Batch) -> Columns:
        rule = self.rule * batch["rollout.reward"]
        form = self.format * batch[self.formatted].to(rule.dtype) if self.formatted is not None else 0 * rule
        model = 0 * rule
        if self.score is not None:
            score = batch[self.score].to(rule.dtype)
            sure = score.sigmoid() if self.squash == "sigmoid" else (score > self.threshold).to(rule.dtype)
            model = self.model * sure
        parts = (rule + form + model, rule, form, model)
        return dict(zip(self.provides, parts, strict=True))
