"""Zero-variance groups, replaced by copies of informative ones."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.cells import overflow_safe
from podium.core.errors import within
from podium.core.part import Columns, Need, Shape
from podium.core.schedule import Number

__all__ = ["ReplaceFlat", "SmoothCopies"]


class ReplaceFlat(Shape):
    """Value-based resampling: each group with equal rewards is replaced by a copy of another, drawn by V / Σ V.

    V = (R_max − mean) · std of the group's rewards. If no group has V > 0, nothing changes. Copies are counted in
    `group.copies`, not made: `SmoothCopies` turns the count into a weight.
    """

    reference = "Value-based Sampling Policy Optimization"
    overflows = "V grows with the square of the rewards"
    max_reward: Number = 1.0  # R_max, the largest attainable reward
    of: str = "rollout.reward"  # the column of rewards

    provides = ("group.copies", "group.task_value")

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.of,)

    def flat(self, batch: Batch) -> Tensor:
        """[group] whether all rewards are equal."""
        groups = batch.by("rollout", "group").agg
        return groups.std(batch[self.of], unbiased=False) == 0

    def values(self, batch: Batch) -> Tensor:
        """[group] V: difficulty times uncertainty; never below 0."""
        return self._values(batch, batch[self.of])

    def _values(self, batch: Batch, reward: Tensor) -> Tensor:
        groups = batch.by("rollout", "group").agg
        return (self.max_reward - groups.mean(reward)).clamp(min=0) * groups.std(reward, unbiased=False)

    def probabilities(self, batch: Batch) -> Tensor:
        """[group] the probability of being drawn; 0 for all where no group has V > 0."""

        def share(reward: Tensor) -> Tensor:
            value = self._values(batch, reward)
            return value / value.sum().clamp(min=torch.finfo(value.dtype).tiny)

        return overflow_safe(share, batch[self.of])

    def copies(self, batch: Batch) -> Tensor:
        """[group] how many copies there are after the replacement."""
        flat, probability = self.flat(batch), self.probabilities(batch)
        if not bool((probability > 0).any()):
            return torch.ones_like(flat, dtype=torch.long)
        order = torch.argsort(batch.identity("group"))  # a draw must not depend on the order of the groups
        upper = probability[order].cumsum(0)
        draws = torch.searchsorted(upper, batch.random("group", "replace")[flat] * upper[-1], right=True)
        drawn = order[draws.clamp(max=len(order) - 1)]
        return (~flat).long() + torch.bincount(drawn, minlength=len(order))

    def __call__(self, batch: Batch) -> Columns:
        return {"group.copies": self.copies(batch).to(batch.dtype), "group.task_value": self.values(batch)}


class SmoothCopies(Shape):
    """Smoothed weight of copied groups: each of c copies counts c^(−power), so the group has the weight c^(1 − power).

    A group that was replaced (c = 0) has the weight 0.
    """

    reference = "Value-based Sampling Policy Optimization"
    power: Number = 0.5  # ρ: 0 is no smoothing, 1 gives every remaining group the same weight

    needs = ("group.copies",)
    provides = ("group.weight.copies",)

    def __post_init__(self) -> None:
        within(self, "power", 0)

    def multiplier(self, batch: Batch) -> Tensor:
        """[group] the weight of each copy."""
        copies: Tensor = batch["group.copies"]
        return copies.clamp(min=1).pow(-float(self.power)).where(copies > 0, 0)

    def __call__(self, batch: Batch) -> Columns:
        return {"group.weight.copies": batch["group.copies"] * self.multiplier(batch)}
