"""Grouping alike actions: the lifted decision process, its loss, and how many groups the samples allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

__all__ = [
    "LiftedProcess",
    "best_grouping",
    "group_members",
    "lifted_process",
    "loss_bound",
    "policy_values",
    "pooled_means",
    "spread_means",
    "value_iteration",
]

Array = np.ndarray


def value_iteration(reward: ArrayLike, transition: ArrayLike, gamma: float, rounds: int | None = None) -> Array:
    """[state] optimal values of rewards [state, action] and transitions [state, action, state]; without `rounds` until
    they stand still. For gamma < 1."""
    r, p = np.asarray(reward, dtype=float), np.asarray(transition, dtype=float)
    value, left = np.zeros(len(r)), rounds if rounds is not None else -1
    while left:
        new = (r + gamma * p @ value).max(1)
        if rounds is None and np.abs(new - value).max() <= 1e-13 * max(1.0, float(np.abs(new).max())):
            return new
        value, left = new, left - 1
    return value


def policy_values(reward: ArrayLike, transition: ArrayLike, policy: ArrayLike, gamma: float) -> Array:
    """[state] exact values of a policy [state, action]."""
    r, p, pi = (np.asarray(x, dtype=float) for x in (reward, transition, policy))
    step = np.einsum("sa,sat->st", pi, p)
    return np.linalg.solve(np.eye(len(r)) - gamma * step, (pi * r).sum(1))


def group_members(group: ArrayLike) -> Array:
    """[group, action] the chance of each action when its group is played: uniform over its members."""
    g = np.asarray(group)
    member = (g[None, :] == np.unique(g)[:, None]).astype(float)
    return member / member.sum(1, keepdims=True)


@dataclass(frozen=True)
class LiftedProcess:
    """A decision process over groups of actions, planned in and played in the process below it."""

    reward: Array  # [state, group] mean over members
    transition: Array  # [state, group, state]
    value: Array  # [state] optimal in the lifted process
    policy: Array  # [state] the group to play
    optimal: Array  # [state] optimal with single actions
    loss: float  # the largest difference of the two
    reward_spread: float  # within a group
    transition_spread: float  # the largest total variation within a group
    bound: float  # on the loss


def lifted_process(reward: ArrayLike, transition: ArrayLike, group: ArrayLike, gamma: float) -> LiftedProcess:
    """Lift a process to groups whose members are played uniformly, and compare its optimum with that of single
    actions."""
    r, p, g = np.asarray(reward, dtype=float), np.asarray(transition, dtype=float), np.asarray(group)
    member = group_members(g)
    lifted_r, lifted_p = r @ member.T, np.einsum("ga,sat->sgt", member, p)
    value, optimal = value_iteration(lifted_r, lifted_p, gamma), value_iteration(r, p, gamma)
    policy = (lifted_r + gamma * lifted_p @ value).argmax(1)
    cells = [np.flatnonzero(g == name) for name in np.unique(g)]
    delta_r = max(float(np.ptp(r[:, cell], axis=1).max()) for cell in cells)
    apart = [np.abs(p[:, cell][:, :, None] - p[:, cell][:, None]).sum(-1).max() / 2 for cell in cells]
    delta_p = float(max(apart))
    return LiftedProcess(
        *(lifted_r, lifted_p, value, policy, optimal),
        loss=float((optimal - value).max()),
        reward_spread=delta_r,
        transition_spread=delta_p,
        bound=loss_bound(delta_r, delta_p, float(np.ptp(optimal)), gamma),
    )


def loss_bound(reward_spread: float, transition_spread: float, span: float, gamma: float) -> float:
    """(δ_r + γ · δ_P · span V*) / (1 − γ): the most that playing groups can lose."""
    return (reward_spread + gamma * transition_spread * span) / (1.0 - gamma)


def best_grouping(
    groups: ArrayLike, width: ArrayLike, samples: float, approximation: float = 1.0, estimation: float = 1.0
) -> tuple[Array, int]:
    """[grouping] c_a · width + c_e · sqrt(m / n), since fewer groups approximate worse and more need more samples; and
    the index of the smallest, the first on ties."""
    m = np.asarray(groups, dtype=float)
    loss = approximation * np.asarray(width, dtype=float) + estimation * np.sqrt(m / samples)
    return loss, int(loss.argmin())


def pooled_means(action: ArrayLike, reward: ArrayLike, group: ArrayLike) -> tuple[dict[str, float], dict[str, int]]:
    """Mean reward and count of each group of actions that was sampled, by its name."""
    cell, r = np.asarray(group)[np.asarray(action, dtype=int)], np.asarray(reward, dtype=float)
    names = np.unique(cell).tolist()
    means = {str(name): float(r[cell == name].mean()) for name in names}
    return means, {str(name): int((cell == name).sum()) for name in names}


def spread_means(means: Mapping[str, float], group: Sequence[int], prior: float | None = None) -> list[float | None]:
    """[action] the mean of its group, and the prior where that has no samples."""
    return [means.get(str(name), prior) for name in group]
