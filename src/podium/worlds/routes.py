"""Vehicle routes: the next customer is chosen one at a time, and the length of all routes is what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from podium.core.errors import within
from podium.protocols.context import Latest
from podium.protocols.option_set import ONE, OptionRow, OptionSet
from podium.protocols.world import Episode, Feedback, Task, World
from podium.tables.tours import Routing, improved, tour_rewards
from podium.worlds.puzzle import task_key

__all__ = ["Routes", "drawn_routing", "nearest_first", "node_numbers"]

CUSTOMERS = {1: 10, 2: 20, 3: 50}  # by level
CAPACITY = {1: 15, 2: 24, 3: 40}
LARGEST = 9  # demand
CLUSTERS = 4


def drawn_routing(draw: np.random.Generator, customers: int, capacity: float, clustered: bool) -> Routing:
    """Places in the unit square, to 3 decimals, and demands from 1 to 9."""
    if clustered:
        middles = draw.uniform(0.15, 0.85, (CLUSTERS, 2))
        places = middles[draw.integers(CLUSTERS, size=customers + 1)] + draw.normal(0, 0.06, (customers + 1, 2))
    else:
        places = draw.uniform(size=(customers + 1, 2))
    demand = np.concatenate([[0.0], draw.integers(1, LARGEST + 1, size=customers).astype(float)])
    return Routing(places.clip(0, 1).round(3), demand, float(capacity))


def node_numbers(
    routing: Routing, distance: NDArray[np.float64], done: NDArray[np.bool_], at: int, load: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """[node, 10] what is known of each node from where the vehicle is, and [node] whether it can be next: a customer
    that has not been served and fits. Where nobody fits the vehicle is at the depot first, so somebody does."""
    left = (routing.capacity - load) / routing.capacity
    share = routing.demand / routing.capacity
    fits = ~done & (share <= left + 1e-9)
    fits[0] = False
    here = np.zeros(len(done))
    here[at] = 1.0
    places = routing.coordinates
    columns = (
        *(places[:, 0], places[:, 1], share, here, distance[at], distance[0], distance[0] - distance[at]),
        *(done.astype(float), fits.astype(float), np.full(len(done), left)),
    )
    return np.stack(columns, -1), fits


def nearest_first(routing: Routing) -> list[int]:
    """The tour that goes to the nearest customer who fits, each time."""
    distance, done = routing.distance, np.zeros(len(routing.demand), dtype=bool)
    done[0] = True
    tour, at, load = list[int](), 0, 0.0
    while not done.all():
        fits = ~done & (load + routing.demand <= routing.capacity + 1e-9)
        if not fits.any():
            at, load = 0, 0.0
            continue
        at = int(np.where(fits, distance[at], np.inf).argmin())
        tour.append(at)
        done[at], load = True, load + routing.demand[at]
    return tour


class Routes(World):
    """A depot and 10 customers (20, 50 at levels 2, 3) with demands: the next customer to serve is chosen among those
    who fit, and the vehicle returns to the depot when nobody does. Each choice costs the length that it adds, the last
    one the way home, too; `rollout.cost` is the length of all routes. It is `correct` to be no longer than by going to
    the nearest customer each time. With `clustered` customers live in a few places; with `mixed` tasks of training have
    from half as many customers to all.
    """

    name = "routes"
    summary = "serve customers with a vehicle of limited capacity, one at a time, on short routes"
    isolation = "inline"
    levels = tuple(CUSTOMERS)
    provides = (
        *World.provides,
        *("task.options", "task.solution", "rollout.cost", "turn.valid", "turn.reward"),
    )
    blank: ClassVar[Mapping[str, Any]] = {"valid": False, "cost": 0.0}
    max_tokens = 4
    max_turns = max(CUSTOMERS.values())
    context = Latest()

    clustered: bool = False  # whether customers live in a few places
    mixed: bool = False  # whether sizes of training tasks differ
    capacity: float = 0.0  # of the vehicle, at least 9; 0: 15, 24 and 40 by level

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.capacity:
            within(self, "capacity", LARGEST)

    def routing(self, index: int, split: str = "train") -> Routing:
        """The places and demands of a task."""
        dials = f"{self.level}-{self.clustered:d}-{self.mixed:d}"
        draw = np.random.default_rng(Random(f"routes/{dials}/{split}/{index}").getrandbits(64))
        customers = CUSTOMERS[self.level]
        if self.mixed and split == "train":
            customers = int(draw.integers(customers // 2, customers + 1))
        return drawn_routing(draw, customers, self.capacity or CAPACITY[self.level], self.clustered)

    def task(self, index: int, split: str = "train") -> Task:
        dials = "-clustered" * self.clustered + "-mixed" * (self.mixed and split == "train")
        dials += f"-{self.capacity:g}" if self.capacity else ""
        routing = self.routing(index, split)
        data = {
            "coordinates": routing.coordinates.tolist(),
            "demand": routing.demand.tolist(),
            "capacity": routing.capacity,
        }
        task = Task(task_key(f"{self.name}-{self.level}{dials}", split, index), "", self.level, data=data)
        return Task(task.key, self.reset(task).observation, self.level, data=data)

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Tour(task)

    def demonstrate(self, task: Task, style: str = "short", seed: int = 0) -> tuple[str, ...]:
        """The nearest customer each time, improved by local search."""
        routing = _routing_of(task)
        start = np.array(nearest_first(routing))
        tour = improved(routing, start, np.random.default_rng(seed), routing.distance, rounds=30)
        return tuple(str(x) for x in _as_chosen(routing, tour.tolist()))

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        return "\n".join(self.demonstrate(task, style, seed))


def _routing_of(task: Task) -> Routing:
    return Routing(np.array(task.data["coordinates"]), np.array(task.data["demand"]), task.data["capacity"])


def _as_chosen(routing: Routing, tour: list[int]) -> list[int]:
    """The tour, if it can be chosen one by one: the vehicle may not go home while somebody fits. Else the nearest
    customers first."""
    load, left = 0.0, set(tour)
    for customer in tour:
        if load + routing.demand[customer] > routing.capacity:
            if any(load + routing.demand[x] <= routing.capacity for x in left):
                return nearest_first(routing)
            load = 0.0
        load += routing.demand[customer]
        left.remove(customer)
    return tour


class _Tour(Episode):
    """One vehicle, customer by customer."""

    def __init__(self, task: Task) -> None:
        self.routing, self.task_key = _routing_of(task), task.key
        self.distance = self.routing.distance
        self.done = np.zeros(len(self.routing.demand), dtype=bool)
        self.done[0] = True
        self.at, self.load, self.tour, self.cost = 0, 0.0, list[int](), 0.0
        super().__init__(self._seen(), task.key)

    def _seen(self) -> str:
        numbers, fits = node_numbers(self.routing, self.distance, self.done, self.at, self.load)
        rows = (
            OptionRow("depot" if n == 0 else f"{n}", tuple(row), "option" if fits[n] else "shown")
            for n, row in enumerate(numbers.tolist())
        )
        return str(OptionSet(ONE, tuple(rows)))

    def _named(self, text: str) -> int | None:
        """The customer that a text names; None: none that can be next."""
        number = int(text) if text.strip().isdecimal() and len(text) < 6 else 0
        if not 0 < number < len(self.done) or self.done[number]:
            return None
        return number if self.load + self.routing.demand[number] <= self.routing.capacity + 1e-9 else None

    def act(self, text: str) -> Feedback:
        before, customer = self.cost, self._named(text)
        if customer is None:  # what cannot be chosen ends the episode, at the price of the rest by its own routes
            rest = float(2 * self.distance[0, ~self.done].sum() + self.distance[self.at, 0])
            return self._ended(-rest, self.cost + rest, valid=False)
        self._go(customer)
        self.load += self.routing.demand[customer]
        self.done[customer] = True
        self.tour.append(customer)
        if self.done.all():
            self._go(0)
            return self._ended(before - self.cost, self.cost, valid=True)
        if not (~self.done & (self.load + self.routing.demand <= self.routing.capacity + 1e-9)).any():
            self._go(0)
            self.load = 0.0
        state = f"{self.task_key}/{'-'.join(map(str, self.tour))}"
        return Feedback(before - self.cost, False, self._seen(), state, {"valid": True})

    def _go(self, there: int) -> None:
        self.cost += float(self.distance[self.at, there])
        self.at = there

    def _ended(self, reward: float, cost: float, *, valid: bool) -> Feedback:
        usual = float(tour_rewards(self.routing, [nearest_first(self.routing)], self.distance)[0])
        info = {"correct": valid and -cost >= usual - 1e-9, "answer": " ".join(map(str, self.tour)), "cost": cost}
        return Feedback(reward, True, state="over", info={**info, "valid": valid})
