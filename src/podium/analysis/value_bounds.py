"""The exact value of a language model in a world whose dynamics are known, bracketed from rollouts.

The sampler says how likely every turn was, and the dynamics how likely what followed. So distinct turns need not be
counted, they can be summed: V = Σ_turn p(turn) Σ_next P(next) (r + V(next)), over the turns that were seen. What was
not seen is worth at least the lowest and at most the highest return that the world allows from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from podium.core.build import Rollout
from podium.worlds.oracle import END, Dynamics

__all__ = ["ValueBounds", "value_bounds"]


@dataclass(frozen=True)
class ValueBounds:
    """low ≤ the value ≤ high, and the mean return of the rollouts, moved within the bounds."""

    value: float
    low: float
    high: float


@dataclass
class _Node:
    """A state at a turn under what the model is shown; turns written there, by their tokens and by what followed."""

    turn: int
    state: int
    edges: dict[tuple[tuple[int, ...], int], tuple[float, float, _Node | None]] = field(default_factory=dict)


def value_bounds(rollouts: Sequence[Rollout], dynamics: Dynamics) -> ValueBounds:
    """The value of the policy that sampled these rollouts of one task at temperature 1, from `turn.state`,
    `turn.next_state`, `turn.action` and `turn.reward`. The more of its distribution was seen, the closer the bounds."""
    nodes: dict[tuple[int, int, tuple[int, ...]], _Node] = {}

    def node(turn: int, rollout: Rollout) -> _Node:
        written = rollout.turns[turn]
        state = dynamics.state(written.columns["state"])
        return nodes.setdefault((turn, state, tuple(written.context)), _Node(turn, state))

    for rollout in rollouts:
        for number, turn in enumerate(rollout.turns):
            here = node(number, rollout)
            later = turn.columns["next_state"]
            follows = dynamics.state(later) if later in dynamics.states else END
            outcomes = dynamics.follows[here.state, dynamics.action(turn.columns["action"])] == follows
            chance = float(dynamics.chance[here.state, dynamics.action(turn.columns["action"])][outcomes].sum())
            weight = chance * float(np.exp(np.sum(turn.tokens["sampler.logp"])))
            after = node(number + 1, rollout) if number + 1 < len(rollout.turns) else None
            here.edges[tuple(turn.ids), follows] = (weight, float(turn.columns["reward"]), after)
    highest, lowest = dynamics.optimal().max(2), -_negated(dynamics).optimal().max(2)  # [turn, state]

    known: dict[int, tuple[float, float]] = {}  # many paths share a node

    def bounds(at: _Node) -> tuple[float, float]:
        if id(at) not in known:
            known[id(at)] = summed(at)
        return known[id(at)]

    def summed(at: _Node) -> tuple[float, float]:
        seen = sum(weight for weight, _, _ in at.edges.values())
        scale = 1 / max(seen, 1.0)  # the sampler's rounding
        left = max(0.0, 1.0 - seen)
        low = high = 0.0
        for weight, reward, after in at.edges.values():
            least, most = (0.0, 0.0) if after is None else bounds(after)
            low += scale * weight * (reward + least)
            high += scale * weight * (reward + most)
        low += left * float(lowest[at.turn, at.state])
        high += left * float(highest[at.turn, at.state])
        return low, high

    low, high = bounds(node(0, rollouts[0]))
    mean = float(np.mean([sum(float(turn.columns["reward"]) for turn in r.turns) for r in rollouts]))
    return ValueBounds(min(max(mean, low), high), low, high)


def _negated(dynamics: Dynamics) -> Dynamics:
    return replace(dynamics, reward=-dynamics.reward)
