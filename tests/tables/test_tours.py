"""Tours and the genetic search: costs by hand, generations without repeats, and what each step of the search keeps."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.core.errors import PodiumError
from podium.tables import tours
from podium.tables.tours import Routing, first_generation, genetic_search, improved, tour_costs

SQUARE = Routing(np.array([[0, 0], [0, 1], [1, 1], [1, 0]], dtype=float), np.array([0.0, 3, 3, 3]), 6.0)


def scattered(seed: int, customers: int = 12) -> Routing:
    draw = np.random.default_rng(seed)
    demand = np.concatenate([[0.0], draw.integers(1, 5, customers)])
    return Routing(draw.uniform(size=(customers + 1, 2)), demand, 10.0)


def test_a_vehicle_that_holds_everything_makes_one_round() -> None:
    large = Routing(SQUARE.coordinates, SQUARE.demand, 9.0)
    assert tour_costs(large, [[1, 2, 3], [1, 3, 2]]).tolist() == pytest.approx([4.0, 2 + 2 * 2**0.5])
    one_each = Routing(SQUARE.coordinates, SQUARE.demand, 3.0)
    assert tour_costs(one_each, [[1, 2, 3], [3, 1, 2]]).tolist() == pytest.approx([4 + 2 * 2**0.5] * 2)


def test_a_generation_keeps_each_seed_once_the_cheapest_first_and_fills_up() -> None:
    draw = np.random.default_rng(0)
    made, filled = first_generation(SQUARE, [[1, 3, 2], [1, 2, 3], [1, 3, 2]], 5, draw)
    assert made[:2].tolist() == [[1, 2, 3], [1, 3, 2]]
    assert (len(made), filled) == (5, 3)
    few, none = first_generation(SQUARE, [[1, 3, 2], [1, 2, 3], [2, 1, 3]], 2, draw)
    assert (few.tolist(), none) == ([[1, 2, 3], [2, 1, 3]], 0)
    assert first_generation(SQUARE, [], 4, draw)[1] == 4


@given(st.integers(0, 1000))
def test_crossover_and_neighbours_are_tours_and_local_search_is_never_worse(seed: int) -> None:
    routing, draw = scattered(seed), np.random.default_rng(seed)
    one, other = (draw.permutation(12) + 1 for _ in range(2))
    for tour in (tours._crossed(one, other, draw), tours._neighbour(one, draw)):
        assert sorted(tour.tolist()) == list(range(1, 13))
    better = improved(routing, one, draw, routing.distance, rounds=2)
    assert tour_costs(routing, [better])[0] <= tour_costs(routing, [one])[0]


def test_the_search_is_repeatable_gets_better_and_uses_its_seeds() -> None:
    routing = scattered(3)
    found = [genetic_search(routing, [], np.random.default_rng(0), children=20) for _ in range(2)]
    assert found[0][0].tolist() == found[1][0].tolist()
    costs = [cost for _, cost in found[0][1]]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == pytest.approx(tour_costs(routing, [found[0][0]])[0])
    seeded = genetic_search(routing, [found[0][0]], np.random.default_rng(1), children=1)
    assert seeded[1][0][1] <= costs[-1]


def test_time_that_has_gone_by_counts() -> None:
    ticks = count()
    trace = genetic_search(
        scattered(1), [], np.random.default_rng(0), size=4, seconds=30.0, spent=5.0, clock=lambda: float(next(ticks))
    )[1]
    assert 5.0 < trace[0][0] <= trace[-1][0] <= 31.0


def test_what_is_no_tour_or_no_instance_is_named() -> None:
    with pytest.raises(PodiumError, match="each of the 3 customers once"):
        tour_costs(SQUARE, [[1, 2, 2]])
    with pytest.raises(PodiumError, match="each of the 3 customers once"):
        tour_costs(SQUARE, [[1, 2]])
    with pytest.raises(PodiumError, match="exceeds the capacity"):
        Routing(SQUARE.coordinates, SQUARE.demand, 2.0)
    with pytest.raises(PodiumError, match="give one of the two"):
        genetic_search(SQUARE, [], np.random.default_rng(0))
