"""Terms of the objective: a loss gives a value per element, and how they are aggregated is explicit and separate."""

from __future__ import annotations

import re
from dataclasses import field
from typing import ClassVar

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Part
from podium.core.partition import constant, everyone
from podium.core.schedule import Number
from podium.core.value import Value

__all__ = ["COUPLINGS", "Aggregate", "Term"]

# What a loss couples, from narrow to wide; a micro-batch must hold whole units of it to be exact in one pass.
COUPLINGS = ("token", "rollout", "group", "update")
STEP = re.compile(r"^(\w+) (mean of all|mean|sum)(?: / ([0-9.eE+-]+|length))?$")


class Aggregate(Value):
    """How values become one number: a path of reductions, such as

    - `token mean`: the mean over all trained tokens of the update;
    - `token mean, rollout mean`: the mean over rollouts of each one's token mean;
    - `token sum, rollout mean`; `token sum / 1024, rollout mean`: a constant instead of the length, or `token sum /
      length, rollout mean`, with `length` as a field: Aggregate(…, length=ShareOfTokens(1.0));
    - `group mean`: for a loss with one value per group.

    A mean is over the elements that hold something trained, so an empty rollout is in no denominator, except in
    `token sum / 1024, rollout mean of all`, where the number of rollouts is as constant as the length.
    """

    path: str = "token mean"
    length: Number | None = None  # what `length` stands for in the path, above 0

    def __post_init__(self) -> None:
        within(self, "length", 0, open_low=True, optional=True)
        if ("length" in [text for *_, text in self.steps()]) != (self.length is not None):
            raise PodiumError(f"Aggregate.path = {self.path!r} and length = {self.length} belong together: set both.")

    def steps(self) -> list[tuple[str, str, str]]:
        """(level, mean, mean of all or sum, divisor) from the finest to the coarsest."""
        steps = []
        for text in self.path.split(","):
            match = STEP.match(text.strip())
            if match is None:
                raise PodiumError(
                    f"Aggregate.path = {self.path!r}: {text.strip()!r} is not 'LEVEL mean' or 'LEVEL sum', "
                    "with an optional '/ NUMBER'. Example: 'token mean, rollout mean'."
                )
            steps.append((match[1], match[2], match[3] or "1"))
            if match[3] != "length":
                self._divisor(match[3] or "1")
        return steps

    def _divisor(self, text: str) -> float:
        if text == "length":
            assert self.length is not None
            return float(self.length)
        try:
            divisor = float(text)
        except ValueError:
            divisor = 0.0
        if not 0 < divisor < float("inf"):
            raise PodiumError(f"Aggregate.path = {self.path!r} divides by {text!r}: give a number above 0.")
        return divisor

    def coefficients(self, batch: Batch, members: Tensor, times: float = 1.0) -> Tensor:
        """[finest level] c with `times` · total = Σ c_i · value_i; 0 outside `members`."""
        steps = self.steps()
        present, shares = members, []  # [upper] the weight of each element below it, where that is a mean
        for (level, how, divisor), upper in zip(steps, [s[0] for s in steps[1:]] + ["batch"], strict=True):
            times, cells = times / self._divisor(divisor), batch.partition(level, upper)
            if how != "sum":
                counted = present if how == "mean" else batch.trained(level, empty=True)
                shares.append((upper, 1 / cells.agg.count(counted).clamp(min=1).to(batch.dtype)))
            if upper != "batch":
                present = cells.agg.count(present) > 0
        # From the batch down, so that only the last product has the size of the finest level.
        level, c = "batch", torch.full((1,), times, dtype=batch.dtype, device=batch.device)
        for upper, share in reversed(shares):
            level, c = upper, share * batch.spread(c, level, upper)
        c = batch.spread(c, level, steps[0][0])
        return c if everyone(members) else c.where(members, 0)

    def __str__(self) -> str:
        return self.path if self.length is None else self.path.replace("length", str(self.length))


class Term(Part):
    """One summand of the objective: coefficient · aggregate(loss over `where`)."""

    stage = "objective"
    holds_to_reference: ClassVar[bool] = False  # whether it penalises the distance to the reference policy
    level: ClassVar[str] = "token"  # the level of the values that `loss` gives
    read_by_loop = ("trains",)

    aggregate: Aggregate = field(default=Aggregate("token mean"), kw_only=True)
    coefficient: Number = field(default=1.0, kw_only=True)
    where: str | None = field(default=None, kw_only=True)  # a boolean column: which elements are in this term
    over: str = field(default="where", kw_only=True)  # the denominator of means: this term's members (where), or all
    weight: str | None = field(default=None, kw_only=True)  # a column that multiplies this term alone
    trains: str = field(default="policy", kw_only=True)  # which learner receives the gradient

    def __post_init__(self) -> None:
        one_of(self, "over", ("where", "all"))
        first = self.aggregate.steps()[0][0]
        if first != self.level:
            raise PodiumError(
                f"{type(self).__name__} has one value per {self.level}, so its aggregate must start there, "
                f"not with {first!r}: for example '{self.level} mean'."
            )

    @property
    def routed(self) -> tuple[str, ...]:
        """The columns that its settings `where` and `weight` name."""
        return tuple(name for name in (self.where, self.weight) if name is not None)

    @property
    def neutral(self) -> Part | None:
        """A model that a term without weight trains stays as it is."""
        return None if self.trains == "policy" else self.replace(coefficient=0.0)

    @property
    def couples(self) -> str:
        """The unit within which the losses of tokens depend on each other: token, rollout, group or update."""
        return "token"

    def loss(self, batch: Batch) -> Tensor:
        """[level] the value of each element."""
        raise NotImplementedError

    def silent(self, batch: Batch) -> Tensor | None:
        """[level] where the loss is 0 whatever the policy, so that no forward pass is needed; None: nowhere."""
        return None

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        """[level] values by name; their means over the members are reported."""
        return {}

    def members(self, batch: Batch) -> Tensor:
        """[level] which elements are in this term."""
        trained = batch.trained(self.level)
        return trained if self.where is None else trained & self._chosen(batch, self.where, self.level)

    def _chosen(self, batch: Batch, name: str, level: str) -> Tensor:
        column = batch[name]
        if not isinstance(column, Tensor) or column.dtype != torch.bool:
            raise PodiumError(f"{type(self).__name__}.where = {name!r} must name a boolean column.")
        return batch.spread_column(name, level)

    def coefficients(self, batch: Batch) -> Tensor:
        """[level] c with term = Σ c_i · loss_i. Fixed over an update, so any split of it gives the same sum."""
        members = self.members(batch)
        counted = members if self.over == "where" else batch.trained(self.level)
        c = self.aggregate.coefficients(batch, counted, float(self.coefficient))
        if self.over != "where":
            c = c.where(members, 0)
        weight = batch.weight(self.level)
        c = c if weight is None else c * weight
        return c if self.weight is None else c * self._weighed(batch, self.weight, self.level)

    def _weighed(self, batch: Batch, name: str, level: str) -> Tensor:
        if not isinstance(batch[name], Tensor):
            raise PodiumError(f"{type(self).__name__}.weight = {name!r} must name a column of numbers.")
        return batch.spread_column(name, level)

    def total(self, batch: Batch, c: Tensor) -> Tensor:
        """Σ c_i · loss_i."""
        value = c * self.loss(batch)
        if len(c) and bool((c[:1] if constant(c) else c).amin() > 0):
            return value.sum()
        # 0 · inf would be NaN: elements outside the term do not enter at all.
        return value.where(c != 0, 0).sum()

    def __call__(self, batch: Batch) -> Tensor:
        """The term's value on a whole update."""
        return self.total(batch, self.coefficients(batch))
