"""The world of routes: what is added up is the length of the tour, and only what fits can be chosen."""

from __future__ import annotations

import numpy as np
import pytest

from podium import worlds
from podium.core.errors import PodiumError
from podium.protocols.option_set import read_set
from podium.tables.tours import Routing, tour_costs
from podium.worlds.routes import nearest_first


@pytest.mark.parametrize("settings", [{"level": 1}, {"level": 2, "clustered": True}, {"level": 2, "mixed": True}])
def test_the_checker_finds_nothing(settings: dict[str, object]) -> None:
    assert worlds.check_world(worlds.get("routes", **settings), tasks=3) == []


def test_rewards_sum_to_the_length_of_the_tour_and_all_who_fit_can_be_chosen() -> None:
    world = worlds.get("routes")
    task, draw = world.task(4), np.random.default_rng(0)
    episode, seen, tour, rewards = world.reset(task), task.prompt, list[int](), 0.0
    routing = Routing(np.array(task.data["coordinates"]), np.array(task.data["demand"]), task.data["capacity"])
    load = 0.0
    while True:
        options = read_set(seen)
        free = [n for n, row in enumerate(options.rows) if row.allowed]
        left = set(range(1, len(routing.demand))) - set(tour)
        if not any(load + routing.demand[n] <= routing.capacity for n in left):
            load = 0.0
        assert free == sorted(n for n in left if load + routing.demand[n] <= routing.capacity)
        tour.append(int(draw.choice(free)))
        load += routing.demand[tour[-1]]
        feedback = episode.act(str(tour[-1]))
        rewards += feedback.reward
        if feedback.done:
            break
        seen = feedback.observation
    cost = tour_costs(routing, [tour])[0]
    assert feedback.info["cost"] == pytest.approx(cost)
    assert rewards == pytest.approx(-cost)
    usual = tour_costs(routing, [nearest_first(routing)])[0]
    assert feedback.info["correct"] == (cost <= usual)


def test_solutions_are_no_longer_than_by_the_nearest_customer() -> None:
    world = worlds.get("routes", level=2)
    for index in range(6):
        task = world.task(index)
        episode = world.reset(task)
        assert [episode.act(text) for text in world.demonstrate(task)][-1].info["correct"]


def test_the_depot_a_customer_twice_and_words_end_the_episode_and_cost_more_than_any_tour() -> None:
    world = worlds.get("routes")
    task = world.task(0)
    routing = Routing(np.array(task.data["coordinates"]), np.array(task.data["demand"]), task.data["capacity"])
    worst = 2 * routing.distance[0].sum()
    for text in ("0", "99", "", "first"):
        feedback = world.reset(task).act(text)
        assert feedback.done
        assert (feedback.info["valid"], feedback.info["correct"]) == (False, False)
        assert feedback.reward == pytest.approx(-worst)


def test_a_vehicle_that_is_too_small_is_refused() -> None:
    with pytest.raises(PodiumError, match="capacity"):
        worlds.get("routes", capacity=5)
