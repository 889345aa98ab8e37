"""Preference losses: better rollouts of a group against worse ones (DPO), and each against a moving average."""

from __future__ import annotations

from dataclasses import field

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from podium.core.batch import Batch
from podium.core.part import Need
from podium.core.schedule import Number
from podium.core.term import Aggregate
from podium.parts.objective.classify import Scored

__all__ = ["Preference", "Quality", "preference_loss", "quality_loss"]


def preference_loss(better: Tensor, worse: Tensor, margin: float = 0.0) -> Tensor:
    """[pair] −log σ(D_better − D_worse − margin): the Bradley-Terry loss."""
    return -logsigmoid(better - worse - margin)


def quality_loss(reward: Tensor, better: Tensor, shift: Tensor | float) -> Tensor:
    """[rollout] −log σ(D − δ) of the better, −log σ(δ − D) of the worse."""
    return -logsigmoid(torch.where(better, reward - shift, shift - reward))


class Preference(Scored):
    """DPO within groups: −log σ(D_i − D_j − margin), averaged over the pairs of a group with r_i > r_j.

    D = Σ_t (log π − log π_ref) / temperature, so beta is 1 / temperature. Groups without such a pair are left out.
    With `against=None`, `score="mean"` and a margin it is SimPO.
    """

    reference = "Rafailov et al. 2023, Direct Preference Optimization, https://arxiv.org/abs/2305.18290"
    level = "group"
    temperature: Number = 10.0  # 1 / beta
    score: str = "sum"
    against: str | None = "ref"
    margin: Number = 0.0  # in the unit of D; 0: DPO
    aggregate: Aggregate = field(default=Aggregate("group mean"), kw_only=True)

    @property
    def couples(self) -> str:
        return "group"

    def pairs(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The numbers of the better and of the worse rollout of each pair."""
        all_, reward, trained = batch.pairs("rollout", "group"), batch["rollout.reward"], batch.trained("rollout")
        chosen = (reward[all_.left] > reward[all_.right]) & trained[all_.left] & trained[all_.right]
        return all_.left[chosen], all_.right[chosen]

    def members(self, batch: Batch) -> Tensor:
        left, _ = self.pairs(batch)
        paired = torch.zeros(batch.size("group"), dtype=torch.bool, device=batch.device)
        return super().members(batch) & paired.index_fill(0, batch.link("rollout", "group")[left], True)

    def _mean(self, batch: Batch, left: Tensor, x: Tensor) -> Tensor:
        """[group] the mean of a value per pair."""
        group = batch.link("rollout", "group")[left]
        total = x.new_zeros(batch.size("group")).index_add(0, group, x)
        return total / torch.bincount(group, minlength=len(total)).clamp(min=1)

    def loss(self, batch: Batch) -> Tensor:
        d, (left, right) = self.logits(batch), self.pairs(batch)
        return self._mean(batch, left, preference_loss(d[left], d[right], float(self.margin)))

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        d, (left, right) = self.logits(batch), self.pairs(batch)
        ahead = self._mean(batch, left, (d[left] > d[right]).to(d.dtype))
        return {"preference.margin": self._mean(batch, left, d[left] - d[right]), "preference.accuracy": ahead}


class Quality(Scored):
    """The quality loss of MPO (and BCO): −log σ(D − δ) for right rollouts, −log σ(δ − D) for the others.

    D = Σ_t (log π − log π_ref) / temperature is the implicit reward, and δ its moving average.
    """

    reference = "Wang et al. 2024, Mixed Preference Optimization, https://arxiv.org/abs/2411.10442"
    level = "rollout"
    temperature: Number = 10.0  # 1 / beta
    score: str = "sum"
    against: str | None = "ref"
    shift: Number | str = "batch.reward_shift"  # δ, or the column that holds it
    correct_above: float = 0.5  # the reward above which a rollout is right
    aggregate: Aggregate = field(default=Aggregate("rollout mean"), kw_only=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (*super().needs, *((self.shift,) if isinstance(self.shift, str) else ()))

    def loss(self, batch: Batch) -> Tensor:
        shift = batch[self.shift] if isinstance(self.shift, str) else float(self.shift)
        return quality_loss(self.logits(batch), batch["rollout.reward"] > self.correct_above, shift)

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {"quality.reward": self.logits(batch)}
