"""Exact values of policies that write texts, bracketed from rollouts with known probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from podium.analysis.value_bounds import value_bounds
from podium.core.build import Rollout, Turn
from podium.worlds.keydoor import KeyDoor
from podium.worlds.oracle import END, Array, Dynamics


def told(dynamics: Dynamics, policy: Array, count: int, seed: int) -> list[Rollout]:
    """Rollouts of a table as a model would record them: a token for each action."""
    walks = dynamics.oracle(policy).walks(count, np.random.default_rng(seed))
    rollouts = []
    for number in range(count):
        turns = []
        for step in np.flatnonzero(walks.rollout == number):
            state, action, after = walks.state[step], walks.action[step], walks.follows[step]
            turns.append(
                Turn(
                    (int(action),),
                    (int(state),),
                    columns={
                        "state": dynamics.states[state],
                        "next_state": "over" if after == END else dynamics.states[after],
                        "action": dynamics.actions[action],
                        "reward": float(walks.reward[step]),
                    },
                    tokens={"sampler.logp": [float(np.log(policy[state, action]))]},
                )
            )
        rollouts.append(Rollout("t", turns))
    return rollouts


@pytest.mark.parametrize("slip", [0.0, 0.3])
def test_bounds_hold_from_the_first_rollout_and_close_on_the_exact_value(slip: float) -> None:
    world = KeyDoor(level=1, slip=slip, turn_rewards=0.5, invalid_penalty=0.1)
    dynamics = world.dynamics(world.task(1))
    policy = dynamics.softmax(1.0)
    exact = dynamics.oracle(policy).values[0, 0]
    widths = []
    for count in (1, 20, 3000):
        found = value_bounds(told(dynamics, policy, count, seed=count), dynamics)
        assert found.low - 1e-9 <= exact <= found.high + 1e-9
        assert found.low <= found.value <= found.high
        widths.append(found.high - found.low)
    assert widths[0] > widths[1] > widths[2]
    assert widths[2] < 0.05


def test_a_certain_policy_is_known_from_one_rollout() -> None:
    world = KeyDoor(level=1)
    dynamics = world.dynamics(world.task(2))
    policy = np.eye(len(dynamics.actions))[dynamics.optimal(0.9)[0].argmax(1)]
    found = value_bounds(told(dynamics, policy, 1, seed=0), dynamics)
    assert found.low == found.high == found.value == dynamics.oracle(policy).values[0, 0] == 1.0
