"""Whether what is paid for goes with what is wanted."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.part import Columns, Metric, Need

__all__ = ["ProxyGap"]


class ProxyGap(Metric):
    """Reports whether a dense reward goes with the outcome: the correlation of both over the rollouts, each centred
    within its task, and an alarm, 1 where the correlation is negative.

    NaN, and no alarm, where either is the same for all rollouts of every task.
    """

    reference = "Towards better dense rewards in Reinforcement Learning Applications, https://arxiv.org/abs/2512.04302"
    dense: str = "rollout.reward"  # what is paid
    outcome: str = "rollout.correct"  # what is wanted

    provides = ("batch.proxy.correlation", "batch.proxy.alarm")

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.dense, self.outcome)

    def __call__(self, batch: Batch) -> Columns:
        groups, everyone = batch.by("rollout", "group"), batch.by("rollout").agg
        paid, wanted = (groups.centre(batch[name].to(torch.float64)) for name in self.needs)
        # Each is scaled to at most 1 before it is squared, so that huge rewards do not overflow.
        paid, wanted = (x / x.abs().max().clamp(min=torch.finfo(x.dtype).tiny) for x in (paid, wanted))
        both, first, second = (everyone.sum(x) for x in (paid * wanted, paid**2, wanted**2))
        correlation = both / (first * second).sqrt()
        alarm = (correlation < 0).to(batch.dtype)
        return {"batch.proxy.correlation": correlation.to(batch.dtype), "batch.proxy.alarm": alarm}
