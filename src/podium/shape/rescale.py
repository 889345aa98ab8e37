"""Advantages of the whole batch on one scale."""

from __future__ import annotations

from dataclasses import field

from podium.core.batch import Batch
from podium.core.errors import one_of
from podium.core.normalize import Normalizer
from podium.core.part import Columns, Need, Shape

__all__ = ["Rescale", "Whiten"]


class Whiten(Shape, Normalizer):
    """(A − mean) / sqrt(var + ε) over all elements of a level that count, in the whole batch or by key."""

    epsilon: float = 1e-8
    epsilon_at: str = "inside"
    level: str = "token"
    key: tuple[str, ...] = field(default=())
    advantage: str = "advantage"

    @property
    def normalizes(self) -> bool:
        return self.scale != "none"

    @property
    def needs(self) -> tuple[Need, ...]:
        return (f"{self.level}.{self.advantage}", *(k for k in self.key if "." in k))

    @property
    def provides(self) -> tuple[str, ...]:
        return (f"{self.level}.{self.advantage}",)

    def __call__(self, batch: Batch) -> Columns:
        name = f"{self.level}.{self.advantage}"
        return {name: self.normalized(batch.by(self.level, *self.key), batch[name])}


class Rescale(Shape):
    """A · (rollouts of the batch / rollouts that carry a gradient), so that groups without signal do not dilute it.

    `active` counts the rollouts of groups whose rewards differ; `nonzero` counts rewards that are not 0.
    """

    reference = "GPG, https://arxiv.org/abs/2504.02546"
    count: str = "active"

    needs = ("rollout.advantage", "rollout.reward")
    provides = ("rollout.advantage",)

    def __post_init__(self) -> None:
        one_of(self, "count", ("active", "nonzero"))

    def __call__(self, batch: Batch) -> Columns:
        reward = batch["rollout.reward"]
        groups = batch.by("rollout", "group")
        carries = groups.max(reward) > groups.min(reward) if self.count == "active" else reward != 0
        everyone = batch.by("rollout").agg
        factor = everyone.count().to(reward.dtype) / everyone.count(carries).clamp(min=1)
        return {"rollout.advantage": batch["rollout.advantage"] * factor}
