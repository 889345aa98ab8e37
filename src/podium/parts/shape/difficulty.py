"""Advantages scaled by the difficulty of the group."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Columns, Shape
from podium.core.schedule import Count, Number

__all__ = ["Hardness", "LengthGate", "ProgressFocus"]


class ProgressFocus(Shape):
    """Curriculum by progress: A ← (1 − P) · A/(2 (1 − √p + ε)) + P · A/(2 (√p + ε)), then A · min(1, P/alpha) if A > 0.

    p is the mean reward of the group, in [0, 1], and P the mean of p over the groups. As training succeeds, emphasis
    moves from easy groups to hard ones, and positive advantages are damped less.
    """

    reference = "A-GRAE, https://github.com/Yu7-code/A-GRAE"
    alpha: Number = 1.0  # the progress P from which positive advantages are not damped; 0: they never are
    easy: str = "1 - sqrt p"  # what the easy focus divides by; sqrt(1 - p) mirrors the hard one
    focus: bool = True  # whether the first step is taken; False: only positive advantages are damped
    singleton: str = "mean"  # p of a group of one: its reward (mean), or zero
    epsilon: float = 1e-6  # ε

    needs = ("rollout.advantage", "rollout.reward")
    provides = ("rollout.advantage", "batch.progress")

    def __post_init__(self) -> None:
        within(self, "alpha", 0)
        one_of(self, "easy", ("1 - sqrt p", "sqrt(1 - p)"))
        one_of(self, "singleton", ("mean", "zero"))
        within(self, "epsilon", 0, open_low=True)

    def __call__(self, batch: Batch) -> Columns:
        a, groups = batch["rollout.advantage"], batch.by("rollout", "group")
        p = groups.agg.mean(batch["rollout.reward"]).clamp(0, 1)  # [group]
        if self.singleton == "zero":
            p = p.where(groups.agg.count() > 1, 0)
        progress = groups.by().agg.mean(p)  # [batch] each group once
        if self.focus:
            easy = 1 - p.sqrt() if self.easy == "1 - sqrt p" else (1 - p).sqrt()
            factor = (1 - progress) / (easy + self.epsilon) + progress / (p.sqrt() + self.epsilon)
            a = 0.5 * a * groups.spread(factor)
        if self.alpha > 0:
            a = torch.where(a > 0, a * (progress / self.alpha).clamp(max=1), a)
        return {"rollout.advantage": a, "batch.progress": progress}


class Hardness(Shape):
    """Difficulty weighting: A ← A · D, D = slope · (mean reward of the group) + offset. Harder groups weigh more."""

    reference = "Confucius3-Math, https://github.com/netease-youdao/Confucius3-Math"
    overflows = "it multiplies advantages by rewards"
    slope: Number = -0.256  # below 0: hard groups weigh more; 0 with offset 1: A is unchanged
    offset: Number = 1.256  # D of a group whose rewards are all 0

    needs = ("rollout.advantage", "rollout.reward")
    provides = ("rollout.advantage", "group.hardness")

    def __call__(self, batch: Batch) -> Columns:
        groups = batch.by("rollout", "group")
        hardness = self.slope * groups.agg.mean(batch["rollout.reward"]) + self.offset
        return {"rollout.advantage": batch["rollout.advantage"] * groups.spread(hardness), "group.hardness": hardness}


class LengthGate(Shape):
    """Length gate: A ← damp · A in groups whose longest correct rollout is no longer than their mean wrong one.

    Wrong rollouts of `max_length` tokens or more count as truncated and are left out of the mean.
    """

    reference = "ADORA, https://github.com/ShadeCloak/ADORA"
    damp: Number = 0.1  # the factor; 1: no gate
    correct_above: Number = 0.5  # rollouts with a higher reward are correct
    max_length: Count = 3900  # tokens
    without_correct: str = "damp"  # what happens to a group without correct rollouts: damp or pass
    without_wrong: str = "pass"  # and to one with correct rollouts only

    needs = ("rollout.advantage", "rollout.reward", "rollout.length")
    provides = ("rollout.advantage", "group.gate")

    def __post_init__(self) -> None:
        within(self, "damp", 0)
        within(self, "max_length", 1)
        one_of(self, "without_correct", ("damp", "pass"))
        one_of(self, "without_wrong", ("damp", "pass"))

    def gate(self, batch: Batch) -> Tensor:
        """[group] the factor."""
        reward, length = batch["rollout.reward"], batch["rollout.length"].to(batch.dtype)
        groups = batch.by("rollout", "group").agg
        correct = reward > self.correct_above
        wrong = ~correct & (length < self.max_length)
        passes = groups.max(length, correct) > groups.mean(length, wrong)
        passes = passes.where(groups.count(wrong) > 0, self.without_wrong == "pass")
        passes = passes.where(groups.count(correct) > 0, self.without_correct == "pass")
        return torch.where(passes, 1.0, float(self.damp)).to(reward.dtype)

    def __call__(self, batch: Batch) -> Columns:
        gate = self.gate(batch)
        factor = batch.spread(gate, "group", "rollout")
        return {"rollout.advantage": batch["rollout.advantage"] * factor, "group.gate": gate}
