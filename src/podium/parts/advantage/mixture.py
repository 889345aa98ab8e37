"""Multi-turn credit as a weighted sum of normalised comparisons, each over its own key."""

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

INDEX = "step.index"  # the position of a step in its rollout, computed rather than read as a column


class MixtureComponent(Normalizer):
    """One comparison of a mixture: share · (x − centre) / (scale + ε) over the steps with the same key.

    x is a column, or with `gamma` its discounted return. An outcome, `rollout.NAME`, counts at every step; with `gamma`
    it is discounted by the steps that are left: γ^(T − t) · R.
    """

    of: str = "step.reward"  # x, a column of steps or rollouts
    gamma: Number | None = None  # discount per step, in [0, 1]; None: x is the column itself
    key: tuple[str, ...] = ("group",)  # levels above and columns; step.index compares steps at the same position
    share: Number = 1.0  # weight of this comparison in the mixture
    rows: str = "step"  # what counts once in the statistics: each step, or each rollout (for an outcome)
    where: str | None = None  # a boolean column: the steps that are compared; the others get 0; None: all
    penalty: str | None = None  # a column of steps that is subtracted from x; None: none

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "gamma", 0, 1, optional=True)
        one_of(self, "rows", ("step", "rollout"))
        by_step = self.gamma is not None or self.where is not None or self.penalty is not None
        if self.rows == "rollout" and (self.level != "rollout" or by_step):
            raise PodiumError(
                f"MixtureComponent(rows='rollout') counts each rollout once, so `of` must be a column of rollouts, "
                f"without gamma, where or penalty, not {self.of!r}."
            )
        if self.level not in ("step", "rollout"):
            raise PodiumError(f"MixtureComponent.of = {self.of!r} must name a column of steps or of rollouts.")

    @property
    def level(self) -> str:
        """The level of x."""
        return self.of.partition(".")[0]

    @property
    def needs(self) -> tuple[str, ...]:
        keys = (k for k in self.key if "." in k and k != INDEX)
        return (self.of, *keys, *(name for name in (self.where, self.penalty) if name is not None))

    def values(self, batch: Batch) -> Tensor:
        """[step] x."""
        x: Tensor = batch[self.of]
        if self.level == "rollout":
            x = batch.spread(x, "rollout", "step")
            if self.gamma is not None:
                x = x.where(batch.last("step", "rollout"), 0)
        x = x if self.gamma is None else batch.scan(x, "step", "rollout", decay=float(self.gamma))
        return x if self.penalty is None else x - batch[self.penalty]

    def compared(self, batch: Batch) -> Tensor:
        """[step] The normalised comparison, before its share."""
        if self.rows == "rollout":
            outcomes = self.normalized(batch.by("rollout", *self.key), batch[self.of])
            return batch.spread(outcomes, "rollout", "step")
        compared = self.normalized(self.cells(batch), self.values(batch))
        return compared if self.where is None else compared.where(batch[self.where], 0)

    def cells(self, batch: Batch) -> Partition:
        """The steps by key."""
        position = batch.position("step", "rollout")
        where = None if self.where is None else batch[self.where]
        return batch.by("step", *(position if k == INDEX else k for k in self.key), where=where)

    def alone(self, batch: Batch) -> Tensor:
        """[step] Whether it has no other step to be compared with."""
        if self.rows == "rollout":
            return batch.spread(batch.by("rollout", *self.key).count() <= 1, "rollout", "step")
        return self.cells(batch).count() <= 1


class Mixture(Advantage):
    """Step advantages as a weighted sum of normalised comparisons: A = Σ_k share_k · N_k(x_k).

    What each comparison takes as x and over which key it normalises makes the method; one comparison of
    `rollout.reward` within the group is GRPO. `rollout.alone` reports the share of a rollout's comparisons in which a
    step had nothing to be compared with.
    """

    comparisons: tuple[MixtureComponent, ...] = (MixtureComponent(),)

    provides = ("step.advantage", "rollout.alone")

    def __post_init__(self) -> None:
        components = self.comparisons if isinstance(self.comparisons, tuple) else (self.comparisons,)
        for component in components:
            if not isinstance(component, MixtureComponent):
                raise PodiumError(f"Mixture.comparisons holds {component!r}: give MixtureComponent(...) only.")
        if not components:
            raise PodiumError("Mixture.comparisons is empty: give at least one MixtureComponent.")
        object.__setattr__(self, "comparisons", components)

    @property
    def needs(self) -> tuple[Need, ...]:
        return tuple(dict.fromkeys(need for c in self.comparisons for need in c.needs))

    @property
    def normalizes(self) -> bool:
        return any(c.scale != "none" for c in self.comparisons)

    def __call__(self, batch: Batch) -> Columns:
        terms = [c.share * c.compared(batch) for c in self.comparisons]
        alone = torch.stack([c.alone(batch) for c in self.comparisons]).to(batch.dtype).mean(0)
        return {
            "step.advantage": sum(terms[1:], terms[0]),
            "rollout.alone": batch.reduce(alone, "step", "rollout", "mean"),
        }
