"""Dense rewards that do not mislead: credit by coalitions, potentials, the graph of what was seen, and an alarm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from math import factorial

import numpy as np
from numpy.typing import ArrayLike

from podium.core.errors import PodiumError
from podium.evaluation.resample import Array

__all__ = [
    "TransitionGraph",
    "discounted_return",
    "misled",
    "owen_credit",
    "potential_shaping",
    "shaped_reward",
    "shapley_credit",
    "span_rewards",
    "transition_graph",
]

MOST_UNITS = 16  # 2ⁿ coalitions


def shapley_credit(value: ArrayLike) -> Array:
    """[unit] Σ_{S without i} |S|! (n − |S| − 1)! / n! · [v(S ∪ i) − v(S)], from the values [2ⁿ] of coalitions by their
    bit mask. They sum to v(all) − v(none)."""
    v, units = _coalitions(value)
    masks = np.arange(len(v))
    sizes = np.array([mask.bit_count() for mask in range(len(v))])
    weights = np.array([factorial(s) * factorial(units - s - 1) / factorial(units) for s in range(units)])
    credits = []
    for unit in range(units):
        without = masks[(masks >> unit) & 1 == 0]
        credits.append((weights[sizes[without]] * (v[without | (1 << unit)] - v[without])).sum())
    return np.array(credits)


def owen_credit(value: ArrayLike, blocks: Sequence[Sequence[int]]) -> Array:
    """[unit] Shapley values for units in blocks: the mean contribution over orders of the blocks, and of the units
    inside each, in which a block is never interrupted. With one block, or blocks of one unit, they are Shapley's."""
    v, units = _coalitions(value)
    if sorted(unit for block in blocks for unit in block) != list(range(units)):
        raise PodiumError(f"The blocks {[list(b) for b in blocks]} must have each of the {units} units once.")
    whole = [sum(1 << unit for unit in block) for block in blocks]
    credits = np.zeros(units)
    for number, block in enumerate(blocks):
        others = [mask for place, mask in enumerate(whole) if place != number]
        for chosen in range(1 << len(others)):
            before = sum(mask for place, mask in enumerate(others) if chosen >> place & 1)
            size = chosen.bit_count()
            weight = factorial(size) * factorial(len(others) - size) / factorial(len(blocks))
            inside = _mean_contributions(v, block, before)
            credits[list(block)] += weight * inside
    return credits


def _mean_contributions(v: Array, block: Sequence[int], before: int) -> Array:
    """[unit of the block] contributions over all orders of its units, after the coalition `before`."""
    total, orders = np.zeros(len(block)), list(permutations(range(len(block))))
    for order in orders:
        mask = before
        for place in order:
            total[place] += v[mask | 1 << block[place]] - v[mask]
            mask |= 1 << block[place]
    return total / len(orders)


def _coalitions(value: ArrayLike) -> tuple[Array, int]:
    v = np.asarray(value, dtype=float)
    units = len(v).bit_length() - 1
    if v.ndim != 1 or len(v) != 1 << units or not 1 <= units <= MOST_UNITS:
        raise PodiumError(f"Coalitions of n units, 1 to {MOST_UNITS}, have 2ⁿ values, not {v.size}.")
    return v, units


def span_rewards(
    credit: ArrayLike, span_end: Sequence[int], kl_reward: ArrayLike, terminal_reward: float, alpha: float
) -> Array:
    """[token] the KL reward + α · the credit of the unit that ends here + (1 − α) · the final reward at the last token.

    α = 0 is the usual sparse reward."""
    rewards = np.array(kl_reward, dtype=float)
    np.add.at(rewards, np.asarray(span_end, dtype=int), alpha * np.asarray(credit, dtype=float))
    rewards[-1] += (1 - alpha) * terminal_reward
    return rewards


@dataclass(frozen=True)
class TransitionGraph:
    """States that were seen, merged where they are near, and how often one was followed by another."""

    nodes: Array  # [node, feature]
    label: Array  # [time] the node of each state
    adjacency: Array  # [node, node] symmetric counts

    @property
    def target(self) -> Array:
        """The counts over the largest of them: what the closeness of two nodes is fitted to."""
        return self.adjacency / max(self.adjacency.max(initial=0.0), 1.0)


def transition_graph(states: ArrayLike, eps: float) -> TransitionGraph:
    """A state farther than eps from every node is a new one; otherwise the nearest stands for it. Each step from one
    node to another counts the edge between them; staying adds none."""
    x = np.asarray(states, dtype=float)
    nodes: list[Array] = []
    label: list[int] = []
    for state in x:
        distances = [float(np.linalg.norm(state - node)) for node in nodes]
        if not nodes or min(distances) > eps:
            nodes.append(state)
            label.append(len(nodes) - 1)
        else:
            label.append(int(np.argmin(distances)))
    adjacency = np.zeros((len(nodes), len(nodes)))
    for before, after in pairwise(label):
        if before != after:
            adjacency[before, after] += 1
            adjacency[after, before] += 1
    return TransitionGraph(np.array(nodes), np.array(label, dtype=float), adjacency)


def potential_shaping(potential: ArrayLike, gamma: float) -> Array:
    """[…, step] γ Φ(s′) − Φ(s) from the potentials before each step and after the last. The return changes by −Φ(s₀)
    where the last one is 0."""
    phi = np.asarray(potential, dtype=float)
    return gamma * phi[..., 1:] - phi[..., :-1]


def shaped_reward(reward: ArrayLike, potential: ArrayLike, gamma: float) -> Array:
    """[…, step] the reward with its potential's shaping."""
    return np.asarray(reward, dtype=float) + potential_shaping(potential, gamma)


def discounted_return(reward: ArrayLike, gamma: float) -> Array:
    """[…] Σ γᵗ r_t over the last axis."""
    r = np.asarray(reward, dtype=float)
    return np.asarray((r * gamma ** np.arange(r.shape[-1])).sum(-1))


def misled(dense: ArrayLike, outcome: ArrayLike, window: int = 5, margin: float = 1e-3) -> Array:
    """[point] whether over the last `window` points the dense return has risen and the outcome fallen, each by more
    than the margin: the reward pays for something else."""
    d, o = (np.asarray(x, dtype=float) for x in (dense, outcome))
    alarm = np.zeros(len(d), dtype=bool)
    if len(d) > window:
        alarm[window:] = (d[window:] - d[:-window] > margin) & (o[window:] - o[:-window] < -margin)
    return alarm
