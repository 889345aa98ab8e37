"""Group classification: the rollouts of a group as examples with labels."""

from __future__ import annotations

from dataclasses import field

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits as bce

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Need
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.objective.surrogate import NOW
from podium.objective.term import Aggregate, Term

__all__ = ["GroupSoftmax", "RolloutLogistic"]

OLD = Signal("logp", of="old")


class _Classify(Term):
    """Rollout k scores s_k = mean (or sum) of its log-ratios; its label is whether its reward is 1."""

    temperature: Number = 0.5  # τ
    score: str = "mean"  # of the token log-ratios: mean or sum

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "temperature", 0, open_low=True)
        one_of(self, "score", ("mean", "sum"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.reward", NOW, OLD)

    def scores(self, batch: Batch) -> Tensor:
        """[rollout] s."""
        log_ratio = batch[NOW] - batch[OLD]
        trained = batch.trained("token")
        if self.score == "mean":
            return batch.reduce(log_ratio, "token", "rollout", "mean", where=trained)
        return batch.reduce(log_ratio, "token", "rollout", "sum", where=trained)

    def classes(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """[rollout] right, [rollout] wrong, [group] whether a group has both."""
        reward, trained = batch["rollout.reward"], batch.trained("rollout")
        right, wrong = trained & (reward == 1), trained & (reward == 0)
        groups = batch.partition("rollout", "group").agg
        return right, wrong, groups.any(right) & groups.any(wrong)


class GroupSoftmax(_Classify):
    """log(1 + Σ_right e^{−s/τ}) + log(1 + Σ_wrong e^{s/τ}) per group that has both; 0 for the others.

    `anchor=False` is log(1 + Σ_right e^{−s/τ} · Σ_wrong e^{s/τ}), which compares the classes with each other only.
    """

    reference = "REAL: Rewards as Labels, https://github.com/Red-RL/REAL"
    level = "group"
    anchor: bool = True  # the fixed logit 0 that both classes are compared with
    aggregate: Aggregate = field(default=Aggregate("group mean"), kw_only=True)

    @property
    def couples(self) -> str:
        return "group"

    def loss(self, batch: Batch) -> Tensor:
        s = self.scores(batch) / self.temperature
        right, wrong, mixed = self.classes(batch)
        groups = batch.partition("rollout", "group").agg
        if self.anchor:
            value = groups.logsumexp(-s, right, anchor=0.0) + groups.logsumexp(s, wrong, anchor=0.0)
        else:
            value = torch.nn.functional.softplus(groups.logsumexp(-s, right) + groups.logsumexp(s, wrong))
        return torch.where(mixed, value, torch.zeros_like(value))


class RolloutLogistic(_Classify):
    """Binary cross-entropy of σ(s/τ) against the label, over the rollouts of groups that have both classes."""

    reference = "REAL's binary cross-entropy variant, https://github.com/Red-RL/REAL"
    level = "rollout"
    aggregate: Aggregate = field(default=Aggregate("rollout mean"), kw_only=True)

    @property
    def couples(self) -> str:
        return "rollout"

    def members(self, batch: Batch) -> Tensor:
        right, wrong, mixed = self.classes(batch)
        return super().members(batch) & (right | wrong) & batch.spread(mixed, "group", "rollout")

    def loss(self, batch: Batch) -> Tensor:
        label = (batch["rollout.reward"] == 1).to(batch.dtype)
        return bce(self.scores(batch) / self.temperature, label, reduction="none")
