"""A hybrid reward: a rule-based verifier, the format and a reward model."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import one_of
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number

__all__ = ["HybridReward"]


class HybridReward(Reward):
    """Combines rule-based reward r, format reward f and a reward model's score s: rule · r + format · f + model · σ(s).

    squash = "threshold" replaces σ(s) by [s > threshold]. format = model = 0 is the rule-based reward.
    """

    reference = "Skywork R1V2, https://github.com/SkyworkAI/Skywork-R1V"
    rule: Number = 1.0  # weight of r, the world's reward
    format: Number = 0.5  # weight of f
    model: Number = 0.5  # weight of the squashed score
    formatted: str | None = "rollout.answered"  # f, a column of rollouts, 1 where the format is right; None: no f
    score: str | None = None  # s, a column of rollouts; None: there is no reward model
    squash: str = "sigmoid"  # sigmoid or threshold
    threshold: Number = 0.0  # the score above which a rollout is accepted, if squash is threshold

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
            squashed = score.sigmoid() if self.squash == "sigmoid" else (score > self.threshold).to(rule.dtype)
            model = self.model * squashed
        return dict(zip(self.provides, (rule + form + model, rule, form, model), strict=True))
