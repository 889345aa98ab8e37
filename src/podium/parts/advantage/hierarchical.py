"""Hierarchical GAE on two time scales: turns within a stretch that pursues one subgoal, and the stretches."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.normalize import Normalizer
from podium.core.part import Advantage, Columns, Need
from podium.core.schedule import Number

__all__ = ["HierarchicalGAE", "segmented"]


def segmented(batch: Batch) -> Batch:
    """The batch with the level `stretch`: turns from one switch of the subgoal to the next."""
    begins = batch["turn.switch"] | batch.first("turn")
    return batch.with_level("stretch", begins.long().cumsum(0) - 1, of="turn", parent="rollout")


class HierarchicalGAE(Advantage):
    """Hierarchical advantages: GAE over turns for actions, GAE over stretches for subgoals, and a switching advantage.

    A stretch is the turns from one switch of the subgoal to the next; n = 0 where the episode is over, else 1.

    - A_low: δ_t = r_t + γ n_t V' − V_low, with V' the next turn's V_low, after a stretch the next one's V_high, after
      the rollout 0; summed within the stretch with decay γ · lam_turn · n_t;
    - A_high: δ_m = Σ γ^j r_j + γ^d n V_high(next) − V_high over the d turns of a stretch; summed over stretches with
      decay γ^d · lam_stretch · n;
    - A_switch: G_t − V_switch, with G the rewards to the end of the stretch and then n · V_high(next).

    Writes them as `turn.{action,subgoal,switch}.advantage`, and the critic's targets as
    `turn.{low,high,switch}.return`.
    """

    reference = "HiPER, https://github.com/JonP07/HiPER-agent"
    gamma: Number = 1.0  # γ, discount per turn, in [0, 1]
    lam_turn: Number = 1.0  # λ of GAE over turns, in [0, 1]
    lam_stretch: Number = 0.95  # λ of GAE over stretches, in [0, 1]
    bootstrap: bool = False  # whether a rollout that ends before its episode is bootstrapped from its last value
    normalize: bool = True  # whether each advantage is normalised, (A − mean) / (std + ε), over the turns that have it
    switch: bool = True  # whether the critic has a value of switching; False: A_switch = 0
    reward: str = "turn.reward"  # a column of turns
    epsilon: float = 1e-8  # ε, > 0

    provides = (
        *("turn.action.advantage", "turn.subgoal.advantage", "turn.switch.advantage"),
        *("turn.low.return", "turn.high.return", "turn.switch.return"),
    )

    def __post_init__(self) -> None:
        within(self, "gamma", 0, 1)
        within(self, "lam_turn", 0, 1)
        within(self, "lam_stretch", 0, 1)
        within(self, "epsilon", 0, open_low=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        of_switch = ("turn.switch.value",) if self.switch else ()
        return (self.reward, "turn.switch", "turn.done", "turn.low.value", "turn.high.value", *of_switch)

    @property
    def normalizes(self) -> bool:
        return self.normalize

    def action(self, batch: Batch) -> Tensor:
        """[turn] A_low, before normalisation."""
        low, going = batch["turn.low.value"], (~batch["turn.done"]).to(batch.dtype)
        ends = batch.last("turn", "stretch")
        after = batch.shift(low, "turn", by=-1).where(~ends, batch.shift(batch["turn.high.value"], "turn", by=-1))
        after = after.where(~batch.last("turn"), low if self.bootstrap else 0.0)
        delta = batch[self.reward] + self.gamma * going * after - low
        return batch.scan(delta, "turn", "stretch", decay=self.gamma * self.lam_turn * going)

    def subgoal(self, batch: Batch) -> Tensor:
        """[stretch] A_high, before normalisation."""
        first, last = batch.first("turn", "stretch"), batch.last("turn", "stretch")
        rewards = batch.scan(batch[self.reward], "turn", "stretch", decay=float(self.gamma))
        value, earned = (
            batch.reduce(x, "turn", "stretch", "sum", where=first) for x in (batch["turn.high.value"], rewards)
        )
        going = batch.reduce((~batch["turn.done"]).to(batch.dtype), "turn", "stretch", "sum", where=last)
        length = batch.partition("turn", "stretch").lengths().to(batch.dtype)
        reach = torch.as_tensor(self.gamma, dtype=batch.dtype, device=batch.device) ** length * going
        after = batch.shift(value, "stretch", by=-1).where(~batch.last("stretch"), value if self.bootstrap else 0.0)
        delta = earned + reach * after - value
        return batch.scan(delta, "stretch", decay=self.lam_stretch * reach)

    def switching(self, batch: Batch) -> Tensor:
        """[turn] G: the rewards to the end of the stretch, then the value of the next."""
        going, last = (~batch["turn.done"]).to(batch.dtype), batch.last("turn", "stretch")
        high, first = batch["turn.high.value"], batch.first("turn", "stretch")
        after = batch.shift(high, "turn", by=-1)  # 0 after the rollout
        if self.bootstrap:  # as if the last stretch went on
            of_stretch = batch.reduce(high, "turn", "stretch", "sum", where=first)
            after = after.where(~batch.last("turn"), batch.spread(of_stretch, "stretch", "turn"))
        earned = batch[self.reward] + (self.gamma * going * after).where(last, 0)
        return batch.scan(earned, "turn", "stretch", decay=float(self.gamma))

    def __call__(self, batch: Batch) -> Columns:
        batch = segmented(batch)
        first = batch.first("turn", "stretch")
        action = self.action(batch)
        subgoal = batch.spread(self.subgoal(batch), "stretch", "turn").where(first, 0)
        returns = self.switching(batch)
        switch = returns - batch["turn.switch.value"] if self.switch else torch.zeros_like(returns)
        return {
            "turn.action.advantage": self._normalized(batch, action),
            "turn.subgoal.advantage": self._normalized(batch, subgoal, first),
            "turn.switch.advantage": self._normalized(batch, switch),
            "turn.low.return": action + batch["turn.low.value"],
            "turn.high.return": (subgoal + batch["turn.high.value"]).where(first, 0),
            "turn.switch.return": returns,
        }

    def _normalized(self, batch: Batch, advantage: Tensor, where: Tensor | None = None) -> Tensor:
        if not self.normalize:
            return advantage
        normalizer = Normalizer(unbiased=False, epsilon=self.epsilon, singleton="zero")
        advantage = normalizer.normalized(batch.by("turn", where=where), advantage)
        return advantage if where is None else advantage.where(where, 0)
