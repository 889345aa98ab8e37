"""Preference losses: better rollouts of a group against worse ones (DPO and its kin), and each against a threshold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from podium.core.batch import Batch
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Need
from podium.core.schedule import Number
from podium.core.term import Aggregate
from podium.parts.objective.classify import Scored

__all__ = ["Preference", "Quality", "preference_loss", "quality_loss"]

# What a pair costs by how far the better one is ahead, in the unit of D.
LINKS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "logistic": lambda ahead: -logsigmoid(ahead),
    "hinge": lambda ahead: torch.relu(1 - ahead),
    "squared": lambda ahead: (1 - ahead).square(),
}


def preference_loss(
    better: Tensor,
    worse: Tensor,
    margin: float = 0.0,
    *,
    bias: float = 1.0,
    label: Tensor | float = 1.0,
    link: str = "logistic",
) -> Tensor:
    """[pair] l · f(D_better − λ D_worse − margin) + (1 − l) · f(D_worse − λ D_better + margin).

    f is the link: −log σ(z), the Bradley-Terry loss; the hinge max(0, 1 − z); or the square (1 − z)². l is the
    probability that the better one is better.
    """
    loss = LINKS[link](better - bias * worse - margin)
    if not isinstance(label, Tensor) and label == 1.0:
        return loss
    return label * loss + (1 - label) * LINKS[link](worse - bias * better + margin)


def quality_loss(reward: Tensor, better: Tensor, shift: Tensor | float, link: str = "logistic") -> Tensor:
    """[rollout] f(D − δ) of the better, f(δ − D) of the worse; f(z) is −log σ(z), or 1 − σ(z) = σ(−z)."""
    ahead = torch.where(better, reward - shift, shift - reward)
    return -logsigmoid(ahead) if link == "logistic" else torch.sigmoid(-ahead)


class Preference(Scored):
    """The pairwise loss f(D_i − λ D_j − margin), averaged over the pairs of a group with r_i > r_j; by default DPO.

    D = s / temperature, so that beta is 1 / temperature; s = Σ_t (log π − log π_ref), or log π alone (`against=None`),
    or the mean over the tokens (`score`), plus `brevity` / |y|. f(z) = −log σ(z), max(0, 1 − z) or (1 − z)²; with a
    `label` l or `smoothing`, l · f(z) + (1 − l) · f of the pair the other way round. Groups without a pair are left
    out, and so are empty rollouts.

    SimPO: `against=None`, `score="mean"`, a margin. IPO: `link="squared"`, temperature 1 / (2 beta), coefficient
    temperature². CPL: `against=None`, bias λ < 1. POWER: SimPO without a margin, with `brevity=1`.
    A Bradley-Terry reward model: `score="value"`, `against=None`, temperature 1, `trains="rm"`.
    """

    reference = "Rafailov et al. 2023, Direct Preference Optimization, https://arxiv.org/abs/2305.18290"
    level = "group"
    temperature: Number = 10.0  # 1 / beta
    score: str = "sum"
    against: str | None = "ref"
    margin: Number = 0.0  # in the unit of D; 0: DPO
    link: str = "logistic"  # f: logistic, hinge or squared
    bias: Number = 1.0  # λ, in (0, 1]: below 1 the better ones are held likely, not only likelier than the worse
    brevity: Number = 0.0  # added to s: this over the number of tokens; at least 0
    smoothing: Number = 0.0  # the probability that a label is wrong, from 0 to 1
    label: str | None = None  # a column of groups or rollouts: the probability that the better one is; None: 1
    aggregate: Aggregate = field(default=Aggregate("group mean"), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "link", tuple(LINKS))
        within(self, "bias", 0, 1, open_low=True)
        within(self, "brevity", 0)
        within(self, "smoothing", 0, 1)
        if self.label is not None and not self.label.startswith(("group.", "rollout.")):
            raise PodiumError(f"Preference.label = {self.label!r} must be a column of groups or rollouts: group.NAME.")

    @property
    def needs(self) -> tuple[Need, ...]:
        return (*super().needs, *(() if self.label is None else (self.label,)))

    @property
    def couples(self) -> str:
        return "group"

    def scores(self, batch: Batch) -> Tensor:
        s = super().scores(batch)
        if self.brevity == 0:
            return s
        tokens = batch.partition("token", "rollout").agg.count(batch.trained("token")).clamp(min=1)
        return s + float(self.brevity) / tokens

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

    def _labels(self, batch: Batch, left: Tensor) -> Tensor | float:
        """[pair] the probability that the better one is better."""
        label = 1.0 if self.label is None else batch.spread_column(self.label, "rollout")[left]
        return label if self.smoothing == 0 else self.smoothing + (1 - 2 * self.smoothing) * label

    def loss(self, batch: Batch) -> Tensor:
        d, (left, right) = self.logits(batch), self.pairs(batch)
        bias, label = float(self.bias), self._labels(batch, left)
        losses = preference_loss(d[left], d[right], float(self.margin), bias=bias, label=label, link=self.link)
        return self._mean(batch, left, losses)

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        d, (left, right) = self.logits(batch), self.pairs(batch)
        ahead = d[left] > d[right]
        if self.label is not None:  # as the labels say
            ahead = ahead == (batch.spread_column(self.label, "rollout")[left] > 0.5)
        shown = {"margin": d[left] - d[right], "accuracy": ahead.to(d.dtype), "better": d[left], "worse": d[right]}
        return {f"preference.{name}": self._mean(batch, left, x) for name, x in shown.items()}


class Quality(Scored):
    """The quality loss of MPO (and BCO): −log σ(D − δ) for right rollouts, −log σ(δ − D) for the others.

    D = Σ_t (log π − log π_ref) / temperature is the implicit reward, and δ its moving average. With `link="sigmoid"`,
    1 − σ(D − δ) and 1 − σ(δ − D), and with δ an estimate of the KL divergence (`MismatchedKL`), it is KTO, which needs
    no pairs.
    """

    reference = "Wang et al. 2024, Mixed Preference Optimization, https://arxiv.org/abs/2411.10442"
    level = "rollout"
    temperature: Number = 10.0  # 1 / beta
    score: str = "sum"
    against: str | None = "ref"
    shift: Number | str = "batch.reward_shift"  # δ, or the column that holds it
    correct_above: float = 0.5  # the reward above which a rollout is right
    link: str = "logistic"  # −log σ (logistic) or 1 − σ (sigmoid)
    right: Number = 1.0  # weight of the right ones; at least 0
    wrong: Number = 1.0  # weight of the others; at least 0
    aggregate: Aggregate = field(default=Aggregate("rollout mean"), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "link", ("logistic", "sigmoid"))
        within(self, "right", 0)
        within(self, "wrong", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (*super().needs, *((self.shift,) if isinstance(self.shift, str) else ()))

    def loss(self, batch: Batch) -> Tensor:
        shift = batch[self.shift] if isinstance(self.shift, str) else float(self.shift)
        better = batch["rollout.reward"] > self.correct_above
        loss = quality_loss(self.logits(batch), better, shift, self.link)
        if self.right == self.wrong == 1.0:
            return loss
        return loss * torch.where(better, float(self.right), float(self.wrong))

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {"quality.reward": self.logits(batch)}
