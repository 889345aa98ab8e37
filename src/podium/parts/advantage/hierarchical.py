"""Two time scales: turns inside a stretch with one subgoal, and the stretches."""

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
    """GAE over the turns of a stretch for actions, GAE over stretches for subgoals, and a return for the switches.

    - A_low: δ_t = r_t + γ n_t V' − V_low, with V' the next turn's V_low, after a stretch the next one's V_high, after
      the rollout 0; summed inside the stretch with γ · lam_turn · n_t, n_t = 0 where the episode is over, else 1;
    - A_high: δ_m = Σ γ^j r_j + γ^d n V_high(next) − V_high, over the d turns of a stretch; summed with γ^d · lam · n;
    - A_switch: G_t − V_switch, with G the rewards to the end of the stretch and then n · V_high(next).
    """

    reference = "HiPER, https://github.com/JonP07/HiPER-agent"
    gamma: Number = 1.0
    lam_turn: Number = 1.0
    lam_stretch: Number = 0.95
    bootstrap: bool = False  # whether a rollout that was cut goes on as its last value says
    normalize: bool = True  # whether each of the three is compared over the turns that have it: (A − mean)/(std + ε)
    switch: bool = True  # whether there is a value of switching; False: no credit for it
    reward: str = "turn.reward"
    epsilon: float = 1e-8

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
        own = ("turn.switch.value",) if self.switch else ()
        return (self.reward, "turn.switch", "turn.done", "turn.low.value", "turn.high.value", *own)

    @property
    def normalizes(self) -> bool:
        return self.normalize

    def action(self, batch: Batch) -> Tensor:
        """[turn] A_low, not compared."""
        low, going = batch["turn.low.value"], (~batch["turn.done"]).to(batch.dtype)
        ends = batch.last("turn", "stretch")
        after = batch.shift(low, "turn", by=-1).where(~ends, batch.shift(batch["turn.high.value"], "turn", by=-1))
        after = after.where(~batch.last("turn"), low if self.bootstrap else 0.0)
        delta = batch[self.reward] + self.gamma * going * after - low
        return batch.scan(delta, "turn", "stretch", decay=self.gamma * self.lam_turn * going)

    def subgoal(self, batch: Batch) -> Tensor:
        """[stretch] A_high, not compared."""
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
        """[turn] G: what the stretch still earns, and what comes after it."""
        going, last = (~batch["turn.done"]).to(batch.dtype), batch.last("turn", "stretch")
        high, first = batch["turn.high.value"], batch.first("turn", "stretch")
        after = batch.shift(high, "turn", by=-1)  # 0 after the rollout, or as if its last stretch went on
        if self.bootstrap:
            own = batch.reduce(high, "turn", "stretch", "sum", where=first)
            after = after.where(~batch.last("turn"), batch.spread(own, "stretch", "turn"))
        earned = batch[self.reward] + (self.gamma * going * after).where(last, 0)
        return batch.scan(earned, "turn", "stretch", decay=float(self.gamma))

    def __call__(self, batch: Batch) -> Columns:
        batch = segmented(batch)
        first = batch.first("turn", "stretch")
        action = self.action(batch)
        subgoal = batch.spread(self.subgoal(batch), "stretch", "turn").where(first, 0)
        returned = self.switching(batch)
        switch = returned - batch["turn.switch.value"] if self.switch else torch.zeros_like(returned)
        return {
            "turn.action.advantage": self._compared(batch, action),
            "turn.subgoal.advantage": self._compared(batch, subgoal, first),
            "turn.switch.advantage": self._compared(batch, switch),
            "turn.low.return": action + batch["turn.low.value"],
            "turn.high.return": (subgoal + batch["turn.high.value"]).where(first, 0),
            "turn.switch.return": returned,
        }

    def _compared(self, batch: Batch, advantage: Tensor, where: Tensor | None = None) -> Tensor:
        if not self.normalize:
            return advantage
        compare = Normalizer(unbiased=False, epsilon=self.epsilon, singleton="zero")
        found = compare.normalized(batch.by("turn", where=where), advantage)
        return found if where is None else found.where(where, 0)
