"""Preferences over segments of a small house, with a policy that is a table: is the fitted policy the soft optimum?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import torch
from numpy.typing import ArrayLike

from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial
from podium.parts.objective.preference import preference_loss
from podium.worlds.keydoor import KeyDoor
from podium.worlds.oracle import Array, Dynamics

__all__ = ["STUDY", "SegmentSize", "fitted_table", "soft_advantages"]

GAMMA = 0.9  # the discount
# The temperature of maximum-entropy RL. At 0.1 the entropy of all turns to come, 0.1 · log(actions) / (1 − γ), is worth
# more than the gold, and the soft optimum avoids the end.
ALPHA = 0.01
APART = Quantity("apart", "total variation from the soft optimum, covered states", (0.0, 1.0))
EARNED = Quantity("earned", "discounted return of the fitted policy", (0.0, 1.0))


class SegmentSize(StudySize):
    """How many pairs of segments of how many turns."""

    seeds: int = 8
    pairs: int = 4000
    turns: int = 3


def soft_advantages(process: Dynamics) -> Array:
    """[state, action] A* = Q* − V* of maximum-entropy RL without a time limit; log π* = A* / α."""
    value = np.zeros(len(process.states))
    for _ in range(1000):
        q = process.expected + GAMMA * (process.chance * np.append(value, 0.0)[process.follows]).sum(-1)
        top = q.max(1)
        value = top + ALPHA * np.log(np.exp((q - top[:, None]) / ALPHA).sum(1))
    return np.asarray(q - value[:, None])


def fitted_table(seed: int, size: SegmentSize, *, labels: str) -> Mapping[str, ArrayLike]:
    """The table that minimises CPL (bias 1) on pairs of random segments, labelled by Boltzmann-rational preferences:
    by `regret` (the sum of A*), or by `return` (the sum of rewards, at the same temperature)."""
    process = KeyDoor(level=1).dynamics(KeyDoor(level=1).task(seed))
    advantage, states, actions = soft_advantages(process), len(process.states), len(process.actions)
    rng = np.random.default_rng(seed)
    place = rng.integers(states, size=(2 * size.pairs, 1))[:, 0]
    steps, chosen, worth = [], [], np.zeros(2 * size.pairs)
    for _ in range(size.turns):
        action = rng.integers(actions, size=len(place))
        over = place < 0  # the episode has ended: nothing more counts
        at = np.where(over, 0, place)
        gained = advantage[at, action] if labels == "regret" else process.expected[at, action]
        worth += np.where(over, 0.0, gained)
        steps.append(np.where(over, -1, at))
        chosen.append(action)
        place = np.where(over, -1, process.follows[at, action, 0])
    where, what = torch.tensor(np.stack(steps)), torch.tensor(np.stack(chosen))  # [turn, segment]
    scale = 1.0 if labels == "regret" else 1 / ALPHA
    label = torch.sigmoid(torch.tensor(scale * (worth[0::2] - worth[1::2])))
    logits = torch.zeros(states, actions, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([logits], max_iter=500, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        logp = torch.where(where >= 0, logits.log_softmax(1)[where.clamp(min=0), what], 0.0)
        total = ALPHA * logp.sum(0)
        value = preference_loss(total[0::2], total[1::2], label=label).mean() + 1e-9 * logits.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    policy, best = logits.detach().softmax(1).numpy(), np.exp(advantage / ALPHA)
    earned = process.oracle(policy, GAMMA).values[0, 0]
    return {"apart": np.array([np.abs(policy - best).sum(1).mean() / 2]), "earned": np.array([earned])}


STUDY = Trial(
    "cpl",
    "Is the minimiser of CPL on regret labels the soft-optimal policy, and what do return labels teach instead?",
    arms={"regret": partial(fitted_table, labels="regret"), "return": partial(fitted_table, labels="return")},
    claims=(
        Claim("return labels lead further from the soft optimum than regret labels", APART, "return", "regret"),
        Claim("the policy of regret labels earns more", EARNED, "regret", "return"),
    ),
    readings=(APART, EARNED),
    size=SegmentSize(),
    quick=SegmentSize(seeds=3),
)
