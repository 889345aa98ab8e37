"""Multi-agent returns: rewards and returns centred separately for each game and each agent."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.cells import overflow_safe
from podium.core.errors import one_of, within
from podium.core.part import Advantage, Columns, Need
from podium.core.partition import Partition
from podium.core.schedule import Number

__all__ = ["SeatReturns"]

CENTRES = ("none", "mean", "mean_std")


class SeatReturns(Advantage):
    """Turn-level returns for self-play, normalised per game and agent so that no role has a built-in advantage.

        A = whiten(centre_agent(Σ_{t' ≥ t} gamma^(t' − t) · whiten(centre_{game, agent}(r)))) over the tokens

    The reward of a turn stands at its last token and is centred over the turns of the same game and agent; a turn that
    is alone there gets 0. The returns are centred over the agent's distinct return values, 0 among them.
    """

    reference = "MARS, https://github.com/thu-nics/MARS"
    game: str | None = "rollout.domain"  # a column; None: one game
    agent: str | None = None  # a column such as rollout.agent, or turn.agent where several act; None: one agent
    reward_centre: str = "mean"  # none, mean, mean_std, or asymmetric: mean_std clipped to [−1, 3]
    whiten_rewards: bool = True
    gamma: Number = 1.0  # discount per token, the world's included, in [0, 1]
    advantage_centre: str = "mean"  # none, mean or mean_std
    whiten_advantages: bool = True
    rounding: float = 1e-5  # returns closer than this, relative to the largest, are one value; 1e-30: as released
    epsilon: float = 1e-6  # ≥ 0

    provides = ("token.advantage", "token.return")

    def __post_init__(self) -> None:
        one_of(self, "reward_centre", (*CENTRES, "asymmetric"))
        one_of(self, "advantage_centre", CENTRES)
        within(self, "gamma", 0, 1)
        within(self, "rounding", 0, open_low=True)
        within(self, "epsilon", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("step.reward", *(name for name in (self.game, self.agent) if name is not None))

    @property
    def normalizes(self) -> bool:
        return self.whiten_advantages or "std" in self.advantage_centre

    def rewards(self, batch: Batch) -> Tensor:
        """[step] The rewards, centred over the turns of the same game and agent."""
        seats = batch.by("step", *(name for name in (self.game, self.agent) if name is not None))
        return self._centred(seats, batch["step.reward"], self.reward_centre)

    def returns(self, batch: Batch) -> Tensor:
        """[token] The reward to go, of the agent that wrote the token."""
        action = batch.action
        last = batch.last("token", "step", where=action)
        reward = batch.spread(self.rewards(batch), "step", "token").where(last, 0)
        if self.whiten_rewards:
            reward = self._whitened(batch, reward)
        # Token by token: a sum in higher precision would distinguish values that are equal in the release.
        decay = torch.full_like(reward, float(self.gamma))
        if self.agent is None or self.agent.startswith("rollout."):
            return batch.scan(reward, "token", "rollout", decay=decay)
        returns = torch.zeros_like(reward)  # several agents in a rollout: each has its own rewards to go
        seats = batch.by("token", self.agent)
        for seat in range(seats.cells):
            own = seats.index == seat
            to_go = batch.scan(reward.where(own, 0), "token", "rollout", decay=decay)
            returns = torch.where(own, to_go, returns)
        return returns

    def __call__(self, batch: Batch) -> Columns:
        returns = self.returns(batch)
        advantage = returns if self.advantage_centre == "none" else self._by_distinct_values(batch, returns)
        if self.whiten_advantages:
            advantage = self._whitened(batch, advantage)
        return {"token.advantage": advantage.where(batch.action, 0), "token.return": returns}

    def _centred(self, p: Partition, x: Tensor, how: str) -> Tensor:
        if how == "none":
            return x
        centred = self._deviation(p, x).where(p.count() > 1, 0)
        if how != "mean":
            std = p.std(x)
            centred = (centred / (std + self.epsilon)).where(std > self.epsilon, 0)
        return centred.clamp(-1, 3) if how == "asymmetric" else centred

    def _deviation(self, p: Partition, x: Tensor) -> Tensor:
        """The deviation from the cell's mean; as released, with the rounding error that splits equal values."""
        return p.centre(x) if self.rounding > torch.finfo(x.dtype).eps else x - p.mean(x)

    def _by_distinct_values(self, batch: Batch, returns: Tensor) -> Tensor:
        """[token] The returns, centred over the agent's distinct values: each counts once, and 0 is one of them."""
        cells = batch.by("token", *(() if self.agent is None else (self.agent,)))
        counted = batch.counted("rollout")
        where = None if counted is None else batch.spread(counted, "rollout", "token")
        p = Partition(cells.index, cells.cells, where=where)  # the world's tokens included
        tolerance = self.rounding * p.agg.max(returns.abs()).clamp(min=0)  # [cell]
        element, cell, place = p.sort(returns)
        value = returns[element]
        new = (place == 0) | (value - value.roll(1) > tolerance[cell])
        new = new & (value.abs() > tolerance[cell])  # 0 is counted once for every cell below
        distinct = torch.zeros_like(returns).index_copy(0, element, new.to(returns.dtype))
        count = p.total(distinct) + 1
        mean = p.total(distinct * returns) / count
        centred = returns - p.spread(mean)
        if self.advantage_centre == "mean":
            return centred

        def std(x: Tensor) -> Tensor:
            mean = p.total(distinct * x) / count
            square = p.total(distinct * (x - p.spread(mean)).square()) + mean.square()
            return (square / (count - 1).clamp(min=1)).sqrt()

        return centred / p.spread(overflow_safe(std, returns) + self.epsilon)

    def _whitened(self, batch: Batch, x: Tensor) -> Tensor:
        """(x − mean) / sqrt(var + 1e-8) over the tokens of the model; 0 at the others."""
        p = batch.by("token")
        deviation, count = self._deviation(p, x), p.count().to(x.dtype)
        factor = overflow_safe(
            lambda d: (p.mean(d.square()) * (count / (count - 1).clamp(min=1)) + 1e-8).rsqrt(),
            deviation,
        )
        return (deviation * factor).where(batch.action, 0)
