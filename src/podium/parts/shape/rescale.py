"""Advantages whitened over the batch, and rescaled for rollouts without a learning signal."""

from __future__ import annotations

from dataclasses import field

import torch

from podium.core.batch import Batch
from podium.core.errors import one_of
from podium.core.normalize import Normalizer
from podium.core.part import Columns, Need, Shape

__all__ = ["Rescale", "Whiten"]


class Whiten(Shape, Normalizer):
    """Whitened advantages: (A − mean) / sqrt(var + ε) over the elements of a level, in the whole batch or by key."""

    epsilon: float = 1e-8  # ε
    epsilon_at: str = "inside"  # as in Normalizer
    level: str = "token"  # of the advantages
    key: tuple[str, ...] = field(default=())  # (): over the whole batch; ("group",): within each group
    advantage: str = "advantage"  # the column of this level that is whitened
    trained_only: bool = False  # whether mean and variance are those of the trained elements, if there are any

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
    """Rescaling for rollouts without a learning signal: A · (rollouts / rollouts that carry a gradient).

    A rollout carries a gradient if its group's rewards differ (`active`), if its reward is not 0 (`nonzero`), or if
    |A| > 1e-6 (`credited`). With `credited`, only those rollouts are multiplied.
    """

    reference = "GPG, https://arxiv.org/abs/2504.02546"
    count: str = "active"  # active, nonzero or credited
    key: tuple[str, ...] = ()  # (): over the whole batch; ("group",): within each group

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
