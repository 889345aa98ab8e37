"""TODO Rewards for how often a rollout stops to think: windows of high entropy, counted against the task's difficulty."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Annotate, Columns, Need
from podium.core.signal import Signal

__all__ = ["ThinkingMoments", "difficulty"]


def difficulty(batch: Batch) -> Tensor:
    """[rollout] 0 easy, 1 medium, 2 hard: the group solves at least two thirds, at least one third, or less."""
    solved = batch.by("rollout", "group").mean(batch["rollout.correct"].to(batch.dtype))
    return (solved < 2 / 3).long() + (solved < 1 / 3).long()


class ThinkingMoments(Annotate):
    """How many trigger tokens open a window of high entropy, how much higher, and the rollout's own 95 % quantile.

    The window of a token is the next `window` tokens of its rollout; without that many it has none. It is high if its
    mean entropy reaches the tracked threshold, or the median of the rollouts' quantiles before there is one.
    """

    reference = "ARES, https://github.com/shawn0728/ARES"
    window: int = 4
    trigger: str = "token.trigger"  # a boolean column
    of: str = "sampler"  # whose entropy
    top_k: int = 0  # entropies in which all tokens but so many count as one; 0: of the whole distribution

    provides = (
        "rollout.moments",
        "rollout.moments.below",
        "rollout.moments.excess",
        "rollout.moments.quantile",
        "rollout.difficulty",
    )

    def __post_init__(self) -> None:
        within(self, "window", 1)
        within(self, "top_k", 0)

    @property
    def _entropy(self) -> Signal:
        return Signal("entropy", of=self.of, top_k=self.top_k) if self.top_k else Signal("entropy", of=self.of)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self._entropy, self.trigger, "batch.moments.threshold", "rollout.correct")

    def windows(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """[token] the mean entropy of the window after it, and whether it has one."""
        h = batch[self._entropy]
        there, total = torch.ones_like(h), torch.zeros_like(h)
        for _ in range(self.window):  # h moves along the model's tokens, one at a time
            h, there = (batch.following(x, "token", where=batch.action) for x in (h, there))
            total = total + h
        return total / self.window, (there > 0) & batch.action

    def __call__(self, batch: Batch) -> Columns:
        mean, whole = self.windows(batch)
        quantile = batch.partition("token", "rollout").agg.quantile(mean, 0.95, whole).nan_to_num(0)
        threshold = batch["batch.moments.threshold"]
        current = batch.by("rollout").agg.quantile(quantile, 0.5).nan_to_num(0)
        bar = batch.spread(torch.where(threshold.isnan(), current, threshold), "batch", "token")
        opened = batch[self.trigger] & whole
        high = (opened & (mean >= bar)).to(batch.dtype)

        def total(x: Tensor) -> Tensor:
            return batch.reduce(x, "token", "rollout", "sum")

        return {
            "rollout.moments": total(high),
            "rollout.moments.below": total(opened.to(batch.dtype) - high),
            "rollout.moments.excess": total((mean - bar).clamp(min=0).where(opened, 0)),
            "rollout.moments.quantile": quantile,
            "rollout.difficulty": difficulty(batch),
        }
