"""SQIRL and the effective horizon: how far the random policy's values, improved a few times, carry."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

__all__ = [
    "EffectiveHorizon",
    "depth_targets",
    "effective_horizon",
    "monte_carlo_returns",
    "random_policy_values",
    "stochastic_horizon",
]

Array = np.ndarray


def monte_carlo_returns(rewards: ArrayLike, gamma: float) -> Array:
    """[step] R_t = r_t + γ R_{t+1}."""
    r = np.asarray(rewards, dtype=float)
    found, following = np.zeros_like(r), 0.0
    for t in range(len(r) - 1, -1, -1):
        following = found[t] = r[t] + gamma * following
    return found


def depth_targets(monte_carlo: ArrayLike, reward: ArrayLike, done: ArrayLike, next_q: ArrayLike, gamma: float) -> Array:
    """[row, depth] what Q_1 … Q_k are regressed on: the Monte-Carlo return, then r + γ max Q_{j−1}(s′, ·), with nothing
    after the end. `next_q` is [row, depth, action]; its last depth is not used."""
    q = np.asarray(next_q, dtype=float).max(-1)[:, :-1]
    going = 1.0 - np.asarray(done, dtype=float)
    improved = np.asarray(reward, dtype=float)[:, None] + gamma * going[:, None] * q
    return np.concatenate([np.asarray(monte_carlo, dtype=float)[:, None], improved], 1)


@dataclass(frozen=True)
class EffectiveHorizon:
    """For every k whose greedy policy is optimal: the rollouts m_k that find it and H_k = k + log_A m_k. As in the
    authors' analysis only k below the horizon found so far are tried."""

    k_min: int | None
    per_k: list[tuple[int, int, float]]
    horizon: float  # min(T, min_k H_k)


def random_policy_values(transitions: ArrayLike, rewards: ArrayLike, horizon: int) -> Array:
    """[step, state, action] the uniformly random policy's Q, undiscounted, in a deterministic table."""
    return _values(np.asarray(transitions, dtype=int), np.asarray(rewards, dtype=float), horizon, "mean")


def _values(transitions: Array, rewards: Array, horizon: int, how: str) -> Array:
    q, value = np.zeros((horizon, *rewards.shape)), np.zeros(len(rewards))
    for t in range(horizon - 1, -1, -1):
        q[t] = rewards + value[transitions]
        value = getattr(q[t], how)(1)
    return q


def effective_horizon(
    transitions: ArrayLike, rewards: ArrayLike, horizon: int, start: int = 0, precision: float = 1e-4
) -> EffectiveHorizon:
    """The computable bound for a deterministic table [state, action] of the authors' analysis: for every k,
    m = max(1, ⌈16 · var / gap² · ln(2 T A^k)⌉) at each state that greedy play on Q^k can reach."""
    step, reward = np.asarray(transitions, dtype=int), np.asarray(rewards, dtype=float)
    actions = reward.shape[1]
    random, optimal, worst = (_values(step, reward, horizon, how) for how in ("mean", "max", "min"))
    spread = ((random - worst) * (optimal - worst)).max(2)  # [step, state]
    q, per_k, shortest, k = random, [], float(horizon), 1
    while k < shortest:  # H_k ≥ k: a larger k cannot be shorter
        rollouts = _rollouts(q, optimal, spread, step, start, k, actions, precision)
        if rollouts is not None:
            per_k.append((k, rollouts, k + math.log(rollouts, actions)))
            shortest = min(shortest, per_k[-1][2])
        value = np.concatenate([q.max(2), np.zeros((1, len(reward)))])
        q = np.stack([reward + value[t + 1][step] for t in range(horizon)])
        k += 1
    return EffectiveHorizon(per_k[0][0] if per_k else None, per_k, shortest)


def _rollouts(
    q: Array, optimal: Array, spread: Array, step: Array, start: int, k: int, actions: int, precision: float
) -> int | None:
    """The rollouts per action sequence that show the optimal action everywhere; None if greedy play on Q^k fails."""
    reached, most = {start}, 1
    for t in range(len(q)):
        following: set[int] = set()
        for state in reached:
            best = q[t, state].max()
            poor = optimal[t, state] < optimal[t, state].max() - precision
            if poor.any():
                gap = best - q[t, state][poor].max()
                if gap <= precision:
                    return None
                tries = 16 * spread[t, state] / gap**2 * math.log(2 * len(q) * float(actions) ** k)
                most = max(most, math.ceil(tries))
            following.update(step[state][q[t, state] >= best - precision].tolist())
        reached = following
    return most


def stochastic_horizon(
    transition: ArrayLike, rewards: ArrayLike, horizon: int, start: int = 0, precision: float = 1e-6
) -> tuple[int | None, float]:
    """The smallest k whose greedy policy is optimal, None if there is none below the horizon T, and
    H = min(T, min_k k + log_A(1 / Δ_k²)), of transitions [state, action, state] and rewards [state, action]. Δ_k is the
    smallest gap between the best action on Q^k and one that is not optimal, at states that greedy play can reach."""
    p, reward = np.asarray(transition, dtype=float), np.asarray(rewards, dtype=float)
    actions = reward.shape[1]

    def improved(value: Array) -> Array:
        """[step, state, action] the values of an action when `value` [step + 1, state] is earned behind it."""
        return np.stack([reward + p @ value[t + 1] for t in range(horizon)])

    random, optimal = np.zeros((2, horizon + 1, len(reward)))
    q, best = np.zeros((2, horizon, *reward.shape))
    for t in range(horizon - 1, -1, -1):
        q[t], best[t] = reward + p @ random[t + 1], reward + p @ optimal[t + 1]
        random[t], optimal[t] = q[t].mean(1), best[t].max(1)
    first, shortest, k = None, float(horizon), 1
    while k < shortest:
        gap = _smallest_gap(q, best, p, start, precision)
        if gap is not None:
            first = first or k
            shortest = min(shortest, k + max(0.0, math.log(1 / gap**2, actions)))
        q = improved(np.concatenate([q.max(2), np.zeros((1, len(reward)))]))
        k += 1
    return first, shortest


def _smallest_gap(q: Array, best: Array, p: Array, start: int, precision: float) -> float | None:
    """Between the best action on Q and those that are not optimal, where greedy play can get; None if it may err."""
    reached, smallest = np.zeros(len(p), dtype=bool), np.inf
    reached[start] = True
    for t in range(len(q)):
        poor = best[t] < best[t].max(1, keepdims=True) - precision
        top = q[t].max(1)
        gap = top - np.where(poor, q[t], -np.inf).max(1)
        smallest = min(smallest, float(gap[reached].min()))
        if smallest <= precision:
            return None
        greedy = (q[t] >= top[:, None] - precision) & reached[:, None]
        reached = (p * greedy[:, :, None]).sum((0, 1)) > 0
    return min(smallest, 1.0)
