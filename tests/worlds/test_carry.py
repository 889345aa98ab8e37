"""Robots that carry boxes: their moves, rewards and exact values."""

from __future__ import annotations

import numpy as np
import pytest

from podium.core.errors import PodiumError
from podium.worlds import Carry


@pytest.mark.parametrize("level", Carry.levels)
def test_demonstrations_bring_all_boxes_to_the_goal_and_earn_1(level: int) -> None:
    world = Carry(level=level)
    for index in range(5):
        task = world.task(index)
        episode, earned, agents = world.reset(task), 0.0, []
        for move in world.demonstrate(task):
            agents.append(episode.agent)
            feedback = episode.act(move)
            earned += feedback.reward
        assert feedback.done
        assert feedback.info["correct"]
        assert earned == pytest.approx(1.0)
        assert agents == [world.agents[n % len(world.agents)] for n in range(len(agents))]


def test_waiting_changes_nothing_but_who_moves_and_the_round() -> None:
    world = Carry()
    episode = world.reset(world.task(0))
    first = episode.observation
    rounds = [episode.act("wait").info["round"] for _ in range(2)]
    assert rounds == [0, 0]
    assert episode.act("nonsense").info == {"valid": False, "round": 1, "correct": False, "answer": "", "rounds": 2.0}
    assert episode.copy().act("wait").observation == first


def test_an_episode_follows_its_dynamics() -> None:
    world = Carry(boxes=1)
    task = world.task(3)
    dynamics, episode = world.dynamics(task), world.reset(task)
    state = 0
    for move in world.demonstrate(task):
        assert dynamics.states[state] == episode.state
        action = dynamics.action(move)
        feedback = episode.act(move)
        assert feedback.reward == dynamics.reward[state, action, 0]
        state = int(dynamics.follows[state, action, 0])
    assert feedback.done
    assert state == -1
    assert dynamics.optimal()[0, 0].max() == 1.0


def test_a_waiting_team_loses_a_round_of_discount() -> None:
    """Q(s, all wait) = γ V(s), if there is time enough: what READ's joint advantage rests on."""
    world = Carry(rounds=30, boxes=1)
    dynamics = world.dynamics(world.task(0))
    gamma = 0.9
    oracle = dynamics.oracle(dynamics.softmax(2.0), gamma**0.5)
    waited = dynamics.follows[int(dynamics.follows[0, 0, 0]), 0, 0]
    assert waited == 0
    np.testing.assert_allclose(gamma * oracle.values[2, waited], gamma * oracle.values[0, 0], rtol=0.02)


def test_exact_values_are_refused_where_there_are_too_many_states() -> None:
    world = Carry(level=3)
    assert "task.dynamics" not in world.provides
    with pytest.raises(PodiumError, match="levels 1 and 2"):
        world.dynamics(world.task(0))


def test_more_boxes_than_robots_are_refused() -> None:
    with pytest.raises(PodiumError, match="boxes"):
        Carry(boxes=3)
