"""Flow rewards: tokens whose latent states deviate from those of good rollouts are penalised."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Count, Number
from podium.core.signal import Signal

__all__ = ["FlowReward"]


class FlowReward(Reward):
    """Penalises tokens whose latent states deviate from a flow field fitted to good rollouts.

        r_t = −coefficient · n_t,  n = the flow's velocity deviation, min-max scaled to [0, 1] over the rollout

    Only the `top_k` largest n_t of a rollout above `threshold` count. coefficient = 0 is no penalty.
    """

    reference = "RLFR, https://github.com/Jinghaoleven/RLFR"
    coefficient: Number = 0.01
    threshold: Number = 0.6  # of n, in [0, 1]; 0 or below: none
    top_k: Count = 15  # tokens per rollout; 0 or below: all
    minimum: str = "least"  # the minimum of the scaling: least, or the second smallest score (second), as released
    timestep: float = 0.8  # τ at which the flow is evaluated, in [0, 0.999]
    neighbour: str = "before"  # which adjacent token's state the flow is conditioned on: before or after
    flow: str = "flow"  # a role

    provides = ("token.reward.flow", "token.flow.normalized")

    def __post_init__(self) -> None:
        within(self, "top_k", -1)
        within(self, "timestep", 0, 0.999)
        one_of(self, "minimum", ("least", "second"))
        one_of(self, "neighbour", ("before", "after"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return (Signal("flow_score", of=self.flow, timestep=self.timestep, neighbour=self.neighbour),)

    def normalized(self, batch: Batch) -> Tensor:
        """[token] n; 0 where all scores of a rollout are equal, and at tokens of the world."""
        score = batch[self.needs[0]]
        rollouts = batch.partition("token", "rollout")
        low, high = rollouts.min(score, batch.action), rollouts.max(score, batch.action)
        if self.minimum == "second":
            low = rollouts.min(score, batch.action & (score > low))
        width = high - low
        n = (score - low) / width.where(width.isfinite() & (width > 0), 1)
        return n.where(batch.action & width.isfinite() & (width > 0), 0)

    def kept(self, batch: Batch, n: Tensor) -> Tensor:
        """[token] n where it is among the `top_k` largest above the threshold; 0 elsewhere."""
        above = batch.action & (n > self.threshold) if self.threshold > 0 else batch.action
        if self.top_k > 0:
            ranks = batch.partition("token", "rollout").rank(-n, above)
            above = above & (ranks < self.top_k)
        return n.where(above, 0)

    def __call__(self, batch: Batch) -> Columns:
        n = self.normalized(batch)
        return {"token.reward.flow": -self.coefficient * self.kept(batch, n), "token.flow.normalized": n}
