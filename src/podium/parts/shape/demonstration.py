"""What demonstrations do to the credit of the rollouts beside them."""

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
    """`token.expert.logp`: log π_old of the token at the same position of the group's rollout of purpose `baseline`.

    `token.guided` says where it acts. Alignment is by position alone. Past that rollout's end, and in groups without
    one, the yardstick is probability 1 (`certain`), as in the release, or those tokens are not guided (`skip`).
    """

    reference = "CalibRL, https://github.com/zhh6425/CalibRL"
    share: Number = 1.0  # of the groups whose yardstick is used
    past_end: str = "certain"

    needs = ("rollout.purpose", OLD)
    provides = ("token.expert.logp", "token.guided")

    def __post_init__(self) -> None:
        within(self, "share", 0, 1)
        one_of(self, "past_end", ("certain", "skip"))

    def expert(self, batch: Batch) -> Tensor:
        """[group] the number of the rollout that is the yardstick; −1 where there is none."""
        number = torch.arange(len(batch), device=batch.device)
        return batch.partition("rollout", "group").agg.max(
            number.where(batch["rollout.purpose"] == Purpose.baseline, -1)
        )

    def __call__(self, batch: Batch) -> Columns:
        expert = batch.spread(self.expert(batch), "group", "token")
        length = batch.length().long()
        written = batch[OLD][batch.action]  # without what the world wrote
        place = batch.scan(batch.action.to(batch.dtype), "token", "rollout", reverse=False).long() - 1
        inside = (expert >= 0) & (place < length[expert]) & batch.action
        logp = torch.zeros_like(batch[OLD])
        logp[inside] = written[((length.cumsum(0) - length)[expert] + place)[inside]]
        used = batch.spread(batch.random("group", "expert") < self.share, "group", "token")
        guided = used if self.past_end == "certain" else used & inside
        return {"token.expert.logp": logp, "token.guided": guided}


class Contrast(Shape):
    """`rollout.advantage.contrast`: A / G for each of the G sampled rollouts, and −(Σ A / G) for the demonstration.

    Summed over a group with the mean log-likelihoods J it is (1/G) Σ A (J − J_demonstration): 0 for the demonstration
    where the advantages of the rollouts add up to 0. Several demonstrations share the last part equally.
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
