"""Advantage alignment: what is good for the other agent counts in proportion to how good one's own past has been."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Advantage, Columns
from podium.core.schedule import Number

__all__ = ["AlignedReturns"]


class AlignedReturns(Advantage):
    """Turn-level credit in games of two agents that shapes the other without differentiating through it.

        A_t = G_t − the mean of G_t over the other rollouts of the group, G_t = Σ_{k ≥ t} gamma^(k − t) · r_k / scale
        W_t = discount · Σ_{k < t} discount^(t − k) · A_k
        C_t = A_t + beta · W_t · A'_t, A' of the other agent at its turn of the same number

    A rollout that has ended counts as a return of 0 in the baseline of the others; one that is alone has the baseline
    0. If each group has one rollout, the whole batch is one group. beta = 0 is leave-one-out REINFORCE by turns.
    """

    reference = "Learning Robust Social Strategies with LLMs, https://github.com/dereckpiche/AdAlignLLM"
    beta: Number = 0.5  # weight of the alignment, ≥ 0
    discount: Number = 0.9  # of one's own past, in [0, 1]
    gamma: Number = 0.9  # of rewards, in [0, 1]
    scale: float = 1.0  # that rewards are divided by, above 0
    reward: str = "own"  # own, or sum: that of both agents, at each turn
    include_now: bool = False  # W_t = Σ_{k ≤ t} discount^(t − k) · A_k instead
    sign: bool = False  # take the sign of W_t
    bound: float | None = None  # of |W_t|, above 0; None: none
    by_time: bool = False  # divide W_t by its number, t + 1 for the turn t = 0, 1, …
    trusting: bool = False  # W_0 = 1: what is good for the other counts at the first turn

    needs = ("turn.reward", "turn.agent")
    provides = ("turn.advantage", "turn.centred.own", "turn.centred.other")
    overflows = "C_t holds products of two returns"

    def __post_init__(self) -> None:
        within(self, "beta", 0)
        within(self, "discount", 0, 1)
        within(self, "gamma", 0, 1)
        within(self, "scale", 0, open_low=True)
        within(self, "bound", 0, open_low=True, optional=True)
        one_of(self, "reward", ("own", "sum"))

    def __call__(self, batch: Batch) -> Columns:
        agents = batch.by("turn", "agent")
        if agents.cells > 2:
            raise PodiumError(f"AlignedReturns is for two agents, and the rollouts have {agents.cells}.")
        rollout, seat = batch.link("turn", "rollout"), agents.index
        number = _own_number(rollout, seat)
        rounds = int(number.max()) + 1 if len(number) else 1
        reward = torch.zeros(len(batch), 2, rounds, dtype=batch.dtype, device=batch.device)
        reward = reward.index_put((rollout, seat, number), batch["turn.reward"] / self.scale)
        if self.reward == "sum":
            reward = reward.sum(1, keepdim=True).expand(-1, 2, -1)
        advantage = self._less_baseline(batch, self._returns(reward))
        credit = advantage + float(self.beta) * self._weights(advantage) * advantage.flip(1)
        return {
            "turn.advantage": credit[rollout, seat, number],
            "turn.centred.own": advantage[rollout, seat, number],
            "turn.centred.other": advantage[rollout, 1 - seat, number],
        }

    def _weights(self, advantage: Tensor) -> Tensor:
        """[rollout, agent, turn] how good one's own past has been."""
        discount, past, weights = float(self.discount), torch.zeros_like(advantage[..., 0]), []
        for turn in advantage.unbind(-1):
            weights.append(past + turn if self.include_now else discount * past)
            past = discount * (past + turn)
        weight = torch.stack(weights, -1)
        if self.sign:
            weight = weight.sign()
        if self.bound is not None:
            weight = weight.clamp(-self.bound, self.bound)
        if self.by_time:
            weight = weight / torch.arange(1, weight.shape[-1] + 1, device=weight.device)
        return torch.cat([torch.ones_like(weight[..., :1]), weight[..., 1:]], -1) if self.trusting else weight

    def _returns(self, reward: Tensor) -> Tensor:
        """[rollout, agent, turn] the discounted reward to go."""
        to_go, returns = torch.zeros_like(reward[..., 0]), []
        for turn in reversed(range(reward.shape[-1])):
            to_go = reward[..., turn] + float(self.gamma) * to_go
            returns.append(to_go)
        return torch.stack(returns[::-1], -1)

    def _less_baseline(self, batch: Batch, returns: Tensor) -> Tensor:
        """[rollout, agent, turn] the returns less the mean of the other rollouts of the group."""
        cells = batch.by("rollout", "group") if len(batch) > batch.size("group") else batch.by("rollout")
        counted = batch.counted("rollout")
        present = torch.ones(len(batch), dtype=batch.dtype, device=batch.device)
        present = present if counted is None else present * counted
        others = cells.agg.sum(present)[cells.index] - present

        def of_others(x: Tensor) -> Tensor:
            return (cells.agg.sum(x * present)[cells.index] - x * present) / others.clamp(min=1)

        flat = returns.flatten(1)
        baseline = torch.stack([of_others(column) for column in flat.unbind(1)], 1)
        return (flat - baseline).reshape(returns.shape)


def _own_number(rollout: Tensor, seat: Tensor) -> Tensor:
    """[turn] how many turns of the same rollout and agent come before it."""
    cell = rollout * 2 + seat
    order = torch.argsort(cell, stable=True)
    ordered = cell[order]
    place = torch.arange(len(cell), device=cell.device)
    new = torch.ones_like(ordered, dtype=torch.bool)
    new[1:] = ordered[1:] != ordered[:-1]
    first = torch.cummax(place.where(new, torch.zeros_like(place)), 0).values
    return torch.empty_like(place).index_copy(0, order, place - first)
