"""Many turns: several comparisons of steps, each over its own key, added up."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, one_of, within
from podium.core.normalize import Normalizer
from podium.core.part import Advantage, Columns, Need
from podium.core.partition import Partition
from podium.core.schedule import Number

__all__ = ["MixtureComponent", "Mixture"]

INDEX = "step.index"  # 0, 1, 2, … along a rollout: known from the structure


class MixtureComponent(Normalizer):
    """share · (x − centre) / (scale + ε) over the steps with the same key.

    x is a column; with `gamma` the discounted sum of what follows of it in the rollout. An outcome, `rollout.NAME`,
    counts at every step, with `gamma` discounted by the steps that are left: γ^(T − t) · R.
    """

    of: str = "step.reward"
    gamma: Number | None = None  # None: x is the column itself
    key: tuple[str, ...] = ("group",)  # levels above and columns; step.index compares steps at the same place
    share: Number = 1.0  # of this comparison in the mixture
    rows: str = "step"  # who counts in the statistics: each step, or each rollout once (of an outcome)
    where: str | None = None  # a boolean column of steps: who is compared; the others get 0

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "gamma", 0, 1, optional=True)
        one_of(self, "rows", ("step", "rollout"))
        if self.rows == "rollout" and (self.level != "rollout" or self.gamma is not None or self.where is not None):
            raise PodiumError(
                f"Comparison(rows='rollout') counts each rollout once, so that `of` must be a column of rollouts, "
                f"without gamma or where, not {self.of!r}."
            )
        if self.level not in ("step", "rollout"):
            raise PodiumError(f"Comparison.of = {self.of!r} must name a column of steps or of rollouts.")

    @property
    def level(self) -> str:
        return self.of.partition(".")[0]

    @property
    def needs(self) -> tuple[str, ...]:
        keys = (k for k in self.key if "." in k and k != INDEX)
        return (self.of, *keys, *(() if self.where is None else (self.where,)))

    def values(self, batch: Batch) -> Tensor:
        """[step] x."""
        x: Tensor = batch[self.of]
        if self.level == "rollout":
            x = batch.spread(x, "rollout", "step")
            if self.gamma is not None:
                x = x.where(batch.last("step", "rollout"), 0)
        return x if self.gamma is None else batch.scan(x, "step", "rollout", decay=float(self.gamma))

    def compared(self, batch: Batch) -> Tensor:
        """[step] the comparison, before its share."""
        if self.rows == "rollout":
            outcomes = self.normalized(batch.by("rollout", *self.key), batch[self.of])
            return batch.spread(outcomes, "rollout", "step")
        found = self.normalized(self.cells(batch), self.values(batch))
        return found if self.where is None else found.where(batch[self.where], 0)

    def cells(self, batch: Batch) -> Partition:
        """The steps by key."""
        place = batch.position("step", "rollout")
        where = None if self.where is None else batch[self.where]
        return batch.by("step", *(place if k == INDEX else k for k in self.key), where=where)

    def alone(self, batch: Batch) -> Tensor:
        """[step] whether it has nobody to be compared with."""
        if self.rows == "rollout":
            return batch.spread(batch.by("rollout", *self.key).count() <= 1, "rollout", "step")
        return self.cells(batch).count() <= 1


class Mixture(Advantage):
    """A = Σ_k share_k · N_k(x_k): the key of each comparison makes the method.

    `rollout.alone` is the share of a rollout's comparisons in which a step has no company.
    """

    comparisons: tuple[MixtureComponent, ...] = (MixtureComponent(),)

    provides = ("step.advantage", "rollout.alone")

    def __post_init__(self) -> None:
        given = self.comparisons if isinstance(self.comparisons, tuple) else (self.comparisons,)
        for comparison in given:
            if not isinstance(comparison, MixtureComponent):
                raise PodiumError(f"Mixture.comparisons holds {comparison!r}: give Comparison(...) only.")
        if not given:
            raise PodiumError("Mixture.comparisons is empty: give at least one Comparison.")
        object.__setattr__(self, "comparisons", given)

    @property
    def needs(self) -> tuple[Need, ...]:
        return tuple(dict.fromkeys(need for c in self.comparisons for need in c.needs))

    @property
    def normalizes(self) -> bool:
        return any(c.scale != "none" for c in self.comparisons)

    def __call__(self, batch: Batch) -> Columns:
        parts = [c.share * c.compared(batch) for c in self.comparisons]
        alone = torch.stack([c.alone(batch) for c in self.comparisons]).to(batch.dtype).mean(0)
        return {
            "step.advantage": sum(parts[1:], parts[0]),
            "rollout.alone": batch.reduce(alone, "step", "rollout", "mean"),
        }
