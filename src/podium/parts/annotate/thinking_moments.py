"""High-entropy windows: where a rollout explores, counted after trigger tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Annotate, Columns, Need
from podium.core.signal import Signal

__all__ = ["ThinkingMoments", "difficulty"]


def difficulty(batch: Batch) -> Tensor:
    """[rollout] 0 easy, 1 medium, 2 hard: the group's pass rate is at least two thirds, at least one third, or less."""
    solved = batch.by("rollout", "group").mean(batch["rollout.correct"].to(batch.dtype))
    return (solved < 2 / 3).long() + (solved < 1 / 3).long()


class ThinkingMoments(Annotate):
    """Counts the high-entropy windows of each rollout that follow a trigger token.

    The window of a token is the next `window` tokens of its rollout; a token with fewer successors has none. A window
    is high if its mean entropy reaches the threshold that `DifficultyControl` tracks; before there is one, the median
    over rollouts of the 95 % quantile of their windows. Writes `rollout.moments` (high windows), `.below` (other
    windows), `.excess` (Σ of mean entropy above the threshold), `.quantile` (the rollout's 95 % quantile) and
    `rollout.difficulty`.
    """

    reference = "ARES, https://github.com/shawn0728/ARES"
    window: int = 4  # tokens, ≥ 1
    trigger: str = "token.trigger"  # a boolean column
    of: str = "sampler"  # whose entropy: sampler, old or a role
    top_k: int = 0  # all but the k likeliest tokens count as one outcome of the entropy; 0: the whole distribution

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
        """[token] The mean entropy of the window after it, and whether it has one."""
        h = batch[self._entropy]
        exists, total = torch.ones_like(h), torch.zeros_like(h)
        for _ in range(self.window):  # h moves along the model's tokens, one at a time
            h, exists = (batch.following(x, "token", where=batch.action) for x in (h, exists))
            total = total + h
        return total / self.window, (exists > 0) & batch.action

    def __call__(self, batch: Batch) -> Columns:
        mean, complete = self.windows(batch)
        quantile = batch.partition("token", "rollout").agg.quantile(mean, 0.95, complete).nan_to_num(0)
        tracked = batch["batch.moments.threshold"]
        current = batch.by("rollout").agg.quantile(quantile, 0.5).nan_to_num(0)
        threshold = batch.spread(torch.where(tracked.isnan(), current, tracked), "batch", "token")
        opened = batch[self.trigger] & complete
        high = (opened & (mean >= threshold)).to(batch.dtype)

        def total(x: Tensor) -> Tensor:
            return batch.reduce(x, "token", "rollout", "sum")

        return {
            "rollout.moments": total(high),
            "rollout.moments.below": total(opened.to(batch.dtype) - high),
            "rollout.moments.excess": total((mean - threshold).clamp(min=0).where(opened, 0)),
            "rollout.moments.quantile": quantile,
            "rollout.difficulty": difficulty(batch),
        }
