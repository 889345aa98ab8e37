"""Finite decision processes as tensors: exact returns of tabular policies that can be differentiated, and their optima.

A policy is a table of logits [turn, state, action]: with a time limit, what is best depends on the turn.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from podium.worlds.oracle import END, Dynamics

__all__ = ["DecisionTable"]


@dataclass(frozen=True)
class DecisionTable:
    """What each action does in each state. The first state is the start; the last one is the end, where one stays."""

    moves: Tensor  # [state, action, state] probabilities
    reward: Tensor  # [state, action] expected; 0 at the end
    horizon: int  # turns

    @classmethod
    def of(cls, dynamics: Dynamics) -> DecisionTable:
        """The tables of a task of a world whose dynamics are known."""
        states, actions = dynamics.expected.shape
        follows = torch.from_numpy(dynamics.follows % (states + 1))  # END, −1, is the last
        assert END == -1
        moves = torch.zeros(states + 1, actions, states + 1, dtype=torch.float64)
        moves[:-1].scatter_add_(2, follows, torch.from_numpy(dynamics.chance))
        moves[-1, :, -1] = 1.0
        reward = torch.zeros(states + 1, actions, dtype=torch.float64)
        reward[:-1] = torch.from_numpy(dynamics.expected)
        return cls(moves, reward, dynamics.horizon)

    @classmethod
    def bandit(cls, reward: Tensor) -> DecisionTable:
        """One state and one turn."""
        actions = len(reward)
        moves = torch.zeros(2, actions, 2, dtype=reward.dtype)
        moves[:, :, 1] = 1.0
        return cls(moves, torch.stack([reward, torch.zeros_like(reward)]), 1)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of a policy: turns, states, actions."""
        return (self.horizon, *self.reward.shape)

    def value(self, logits: Tensor, reward: Tensor, bonus: float = 0.0, gamma: float = 1.0) -> Tensor:
        """E[Σ γᵗ (r(s, a) + bonus · H(π(· | s)))] from the start; the reward is [state, action] or has a turn before.
        At the end nothing is earned."""
        inside = torch.ones(self.reward.shape[0], dtype=logits.dtype)
        inside[-1] = 0.0
        here = torch.zeros(self.reward.shape[0], dtype=logits.dtype)
        here[0] = 1.0
        total = torch.zeros((), dtype=logits.dtype)
        for turn in range(self.horizon):
            logp = logits[turn].log_softmax(-1)
            flow = here[:, None] * logp.exp()
            earned = (reward if reward.dim() == 2 else reward[turn]) - bonus * logp
            total = total + gamma**turn * (flow * earned * inside[:, None]).sum()
            here = torch.einsum("sa,sat->t", flow, self.moves)
        return total

    def best(self, reward: Tensor, bonus: float, gamma: float = 1.0) -> tuple[Tensor, Tensor]:
        """The logits of the optimal policy with an entropy bonus (0: without), and the values [turn, state] of that
        optimum, with a last row of zeros."""
        logits = torch.zeros(self.shape, dtype=reward.dtype)
        values = torch.zeros(self.horizon + 1, self.reward.shape[0], dtype=reward.dtype)
        for turn in reversed(range(self.horizon)):
            earned = reward if reward.dim() == 2 else reward[turn]
            q = earned + gamma * self.moves @ values[turn + 1]
            if bonus:
                logits[turn], values[turn] = q / bonus, bonus * (q / bonus).logsumexp(-1)
            else:
                logits[turn], values[turn] = torch.where(q == q.amax(-1, keepdim=True), 0.0, -1e4), q.amax(-1)
            values[turn, -1] = 0.0
        return logits, values

    def walks(self, logits: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """[walk, turn] the states and actions of sampled episodes; after the end they stay there."""
        state = torch.zeros(count, dtype=torch.long)
        states, actions = [], []
        for turn in range(self.horizon):
            action = torch.multinomial(logits[turn].softmax(-1)[state], 1, generator=generator)[:, 0]
            states.append(state)
            actions.append(action)
            state = torch.multinomial(self.moves[state, action], 1, generator=generator)[:, 0]
        return torch.stack(states, 1), torch.stack(actions, 1)
