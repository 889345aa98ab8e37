"""Demonstrations as references for the rollouts of their group."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.columns import Purpose
from podium.core.errors import one_of, within
from podium.core.part import Columns, Shape
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["AlignExpert", "Contrast"]

OLD = Signal("logp", of="old")


class AlignExpert(Shape):
    """The expert's log-probabilities by position: log π_old of the same position in the group's `baseline` rollout.

    They are written to `token.expert.logp`, and `token.guided` marks the tokens to which they apply. Beyond the end of
    the expert, and in groups without one, the expert's probability is taken as 1 (`certain`), as in the release, or the
    tokens are not guided (`skip`).
    """

    reference = "CalibRL, https://github.com/zhh6425/CalibRL"
    share: Number = 1.0  # of the groups that are guided; in [0, 1]
    past_end: str = "certain"  # certain or skip

    needs = ("rollout.purpose", OLD)
    provides = ("token.expert.logp", "token.guided")

    def __post_init__(self) -> None:
        within(self, "share", 0, 1)
        one_of(self, "past_end", ("certain", "skip"))

    @property
    def neutral(self) -> AlignExpert:
        return self.replace(share=0.0)

    def expert(self, batch: Batch) -> Tensor:
        """[group] the number of the expert's rollout; −1 where there is none."""
        number = torch.arange(len(batch), device=batch.device)
        return batch.partition("rollout", "group").agg.max(
            number.where(batch["rollout.purpose"] == Purpose.baseline, -1)
        )

    def __call__(self, batch: Batch) -> Columns:
        expert = batch.spread(self.expert(batch), "group", "token")
        length = batch.length().long()
        written = batch[OLD][batch.action]  # without the tokens that the world wrote
        place = batch.scan(batch.action.to(batch.dtype), "token", "rollout", reverse=False).long() - 1
        inside = (expert >= 0) & (place < length[expert]) & batch.action
        logp = torch.zeros_like(batch[OLD])
        logp[inside] = written[((length.cumsum(0) - length)[expert] + place)[inside]]
        used = batch.spread(batch.random("group", "expert") < self.share, "group", "token")
        guided = used if self.past_end == "certain" else used & inside
        return {"token.expert.logp": logp, "token.guided": guided}


class Contrast(Shape):
    """Contrast with the demonstration: `rollout.advantage.contrast` is A / G for each of the G sampled rollouts.

    The demonstration gets −Σ A / G, and several demonstrations share it equally. The objective of a group is then
    (1/G) Σ A (J − J_demonstration), with J the mean log-likelihood of a rollout; where the advantages sum to 0, the
    demonstration drops out.
    """

    reference = "Group Relative Alignment Optimization, https://arxiv.org/abs/2508.07750"

    needs = ("rollout.advantage", "rollout.demonstration")
    provides = ("rollout.advantage.contrast",)

    def __call__(self, batch: Batch) -> Columns:
        demonstration, groups = batch["rollout.demonstration"], batch.partition("rollout", "group")
        trained = batch.trained("rollout")
        sampled = trained & ~demonstration
        each = batch["rollout.advantage"] / groups.count(sampled).clamp(min=1)
        total = groups.sum(each, sampled) / groups.count(trained & demonstration).clamp(min=1)
        return {"rollout.advantage.contrast": torch.where(demonstration, -total, each)}
