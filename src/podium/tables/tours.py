"""Vehicle routes as one tour of all customers, their cost, and a genetic search that may start from given tours."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podium.core.errors import PodiumError

__all__ = [
    "Routing",
    "first_generation",
    "genetic_search",
    "improved",
    "population_order",
    "tour_costs",
    "tour_rewards",
]

Tours = NDArray[np.int64]
Costs = NDArray[np.float64]
TRIED, ROUNDS = 48, 12  # neighbours of a tour that are looked at together, and how often


@dataclass(frozen=True)
class Routing:
    """A depot, which is number 0, and customers with demands for vehicles of one capacity."""

    coordinates: NDArray[np.float64]  # [node, 2]
    demand: NDArray[np.float64]  # [node]
    capacity: float

    def __post_init__(self) -> None:
        if len(self.coordinates) != len(self.demand) or len(self.demand) < 2:
            raise PodiumError(f"{len(self.coordinates)} places and {len(self.demand)} demands: give each place one.")
        if self.demand.max() > self.capacity:
            raise PodiumError(f"A demand of {self.demand.max():g} exceeds the capacity {self.capacity:g}.")

    @property
    def distance(self) -> Costs:
        """[node, node]"""
        difference = self.coordinates[:, None] - self.coordinates[None]
        return np.asarray(np.sqrt((difference**2).sum(-1)))


def tour_costs(routing: Routing, tours: Any, distance: Costs | None = None) -> Costs:
    """[tour] the length of tours [tour, customer] without the depot: the vehicle returns to it when the next demand
    does not fit, and at the end."""
    given = np.asarray(tours)
    customers = len(routing.demand) - 1
    if given.ndim != 2 or given.shape[1] != customers or (np.sort(given, -1) != np.arange(1, customers + 1)).any():
        raise PodiumError(f"A tour names each of the {customers} customers once.")
    return _costs(routing, given, routing.distance if distance is None else distance)


def tour_rewards(routing: Routing, tours: Any, distance: Costs | None = None) -> Costs:
    """[tour] what a policy earns for them: minus their lengths."""
    return -tour_costs(routing, tours, distance)


def _costs(routing: Routing, tours: Tours, distance: Costs) -> Costs:
    load, total = np.zeros(len(tours)), np.zeros(len(tours))
    at = np.zeros(len(tours), dtype=np.int64)
    for there in tours.T:
        need = routing.demand[there]
        full = load + need > routing.capacity
        by_depot = distance[at, 0] + distance[0, there]
        total += np.where(full, by_depot, distance[at, there])
        load = np.where(full, need, load + need)
        at = there
    return np.asarray(total + distance[at, 0])


def population_order(costs: Any) -> NDArray[np.int64]:
    """Tours by cost, the cheapest first; those of equal cost stay in their order."""
    return np.asarray(np.argsort(np.asarray(costs), kind="stable"))


def first_generation(routing: Routing, seeds: Any, size: int, draw: np.random.Generator) -> tuple[Tours, int]:
    """[tour, customer] the given tours without repeats, the cheapest if there are more than `size`, filled up with
    random ones, and how many of these there are."""
    customers = len(routing.demand) - 1
    given = np.asarray(seeds, dtype=np.int64).reshape(-1, customers)
    _, first = np.unique(given, axis=0, return_index=True)
    given = given[np.sort(first)]
    if len(given):
        given = given[population_order(tour_costs(routing, given))][:size]
    filled = [draw.permutation(customers) + 1 for _ in range(size - len(given))]
    return np.concatenate([given, np.array(filled, dtype=np.int64).reshape(-1, customers)]), len(filled)


def improved(routing: Routing, tour: Tours, draw: np.random.Generator, distance: Costs, rounds: int = ROUNDS) -> Tours:
    """Local search: of some random neighbours (a piece reversed, or moved elsewhere) the best, while it is better."""
    best, cost = tour, _costs(routing, tour[None], distance)[0]
    for _ in range(rounds):
        tried = np.stack([_neighbour(best, draw) for _ in range(TRIED)])
        costs = _costs(routing, tried, distance)
        place = int(costs.argmin())
        if costs[place] < cost - 1e-12:
            best, cost = tried[place], costs[place]
    return best


def _neighbour(tour: Tours, draw: np.random.Generator) -> Tours:
    low, high = np.sort(draw.choice(len(tour) + 1, 2, replace=False))
    if draw.random() < 0.5:
        return np.concatenate([tour[:low], tour[low:high][::-1], tour[high:]])
    high = min(int(high), int(low) + 3)
    rest = np.concatenate([tour[:low], tour[high:]])
    place = int(draw.integers(len(rest) + 1))
    return np.concatenate([rest[:place], tour[low:high], rest[place:]])


def _crossed(one: Tours, other: Tours, draw: np.random.Generator) -> Tours:
    """Order crossover: a piece of one tour in its place, the other customers in the order of the other."""
    low, high = np.sort(draw.choice(len(one) + 1, 2, replace=False))
    piece = one[low:high]
    rest = other[~np.isin(other, piece)]
    return np.concatenate([rest[:low], piece, rest[low:]])


def genetic_search(
    routing: Routing,
    seeds: Sequence[Any] | Tours,
    draw: np.random.Generator,
    *,
    size: int = 16,
    seconds: float | None = None,
    children: int | None = None,
    spent: float = 0.0,
    clock: Callable[[], float] = time.process_time,
) -> tuple[Tours, list[tuple[float, float]]]:
    """The best tour, and the cost of each best so far with the CPU seconds until it was found, of which `spent` have
    gone by already. Ends after so many seconds or children.

    The seeds go through local search; each child is a crossover of two winners of tournaments of two, improved by local
    search, and takes the place of the worst if it is cheaper and new. Without seeds it is the plain search.
    """
    if (seconds is None) == (children is None):
        raise PodiumError("genetic_search ends after so many seconds or so many children: give one of the two.")
    begun, distance = clock() - spent, routing.distance
    tours, random = first_generation(routing, seeds, size, draw)
    trace, best, generation, costs = list[tuple[float, float]](), np.inf, list[Tours](), list[float]()

    def note(cost: float) -> None:
        nonlocal best
        if cost < best:
            best = cost
            trace.append((clock() - begun, cost))

    for number, tour in enumerate(tours):
        generation.append(improved(routing, tour, draw, distance) if number < size - random else tour)
        costs.append(float(_costs(routing, generation[-1][None], distance)[0]))
        note(costs[-1])
    made = 0
    while (clock() - begun < seconds) if seconds is not None else (made < (children or 0)):
        pairs = draw.integers(size, size=(2, 2))
        one, other = (min(pair, key=costs.__getitem__) for pair in pairs.tolist())
        child = improved(routing, _crossed(generation[one], generation[other], draw), draw, distance)
        cost, worst = float(_costs(routing, child[None], distance)[0]), int(np.argmax(costs))
        made += 1
        if cost < costs[worst] and not any(abs(cost - c) < 1e-9 for c in costs):
            generation[worst], costs[worst] = child, cost
            note(cost)
    return generation[int(np.argmin(costs))], trace
