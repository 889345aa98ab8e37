"""Advantages of the whole batch on one scale."""

from __future__ import annotations

from dataclasses import field

import torch

from podium.core.batch import Batch
from podium.core.errors import one_of
from podium.core.normalize import Normalizer
from podium.core.part import Columns, Need, Shape

__all__ = ["Rescale", "Whiten"]


class Whiten(Shape, Normalizer):
    """(A − mean) / sqrt(var + ε) over all elements of a level that count, in the whole batch or by key.

    `trained_only` takes mean and variance over those that are trained; where nobody is, over all.
    """

    epsilon: float = 1e-8
    epsilon_at: str = "inside"
    level: str = "token"
    key: tuple[str, ...] = field(default=())
    advantage: str = "advantage"
    trained_only: bool = False

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
        trained = batch.trained(self.level) if self.trained_only else None
        where = trained if trained is not None and bool(trained.any()) else None
        return {name: self.normalized(batch.by(self.level, *self.key, where=where), batch[name])}


class Rescale(Shape):
    """A · (rollouts / rollouts that carry a gradient), so that those without signal do not dilute the others.

    `active` counts the rollouts of groups whose rewards differ, `nonzero` rewards that are not 0, `credited` advantages
    beyond ±1e-6; the latter alone are multiplied.
    """

    reference = "GPG, https://arxiv.org/abs/2504.02546"
    count: str = "active"
    key: tuple[str, ...] = ()  # over the whole batch, or over each group

    provides = ("rollout.advantage",)

    def __post_init__(self) -> None:
        one_of(self, "count", ("active", "nonzero", "credited"))

    @property
    def needs(self) -> tuple[Need, ...]:
        reward = () if self.count == "credited" else ("rollout.reward",)
        return ("rollout.advantage", *reward, *(k for k in self.key if "." in k))

    def __call__(self, batch: Batch) -> Columns:
        a, cells = batch["rollout.advantage"], batch.by("rollout", *self.key)
        if self.count == "credited":
            carries = a.abs() > 1e-6
        elif self.count == "nonzero":
            carries = batch["rollout.reward"] != 0
        else:
            groups = batch.by("rollout", "group")
            carries = groups.max(batch["rollout.reward"]) > groups.min(batch["rollout.reward"])
        factor = cells.count().to(a.dtype) / cells.count(carries).clamp(min=1)
        return {"rollout.advantage": torch.where(carries, a * factor, a) if self.count == "credited" else a * factor}
