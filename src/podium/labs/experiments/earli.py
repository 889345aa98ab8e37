"""EARLI: does a genetic search that starts from routes of a learned policy beat the search alone at equal time?"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache, partial

import numpy as np
import torch
from numpy.typing import NDArray

from podium.evaluation.resample import Array
from podium.labs.charts import traced
from podium.labs.findings import Claim, StudySize
from podium.labs.network_runs import trained_run
from podium.labs.trial import Quantity, Trial
from podium.methods import get
from podium.policy.choose.chooser import Chooser
from podium.tables.tours import Routing, genetic_search
from podium.worlds.routes import Routes, nearest_first, node_numbers

__all__ = ["STUDY", "RouteSize", "built", "cost_at"]

TRAINED, TESTED = 2, 3  # levels: up to 20 customers, and 50, which take the search alone seconds
K = 8  # routes of the policy: the likeliest, and seven drawn ones
GRID = (0.2, 0.4, 0.8, 1.6, 3.2)  # CPU seconds, of the policy and the search together
EARLY = Quantity("early", f"cost after {GRID[0]:g} s")
MIDDLE = Quantity("middle", f"cost after {GRID[2]:g} s")
LATE = Quantity("late", f"cost after {GRID[-1]:g} s")
WON = Quantity("won", "cost saved in between")
ELSEWHERE = Quantity("elsewhere", f"cost of clustered customers after {GRID[0]:g} s")


class RouteSize(StudySize):
    """How long the policy is trained, and on how many instances of each kind the search is tried."""

    seeds: int = 6
    iterations: int = 40
    tasks: int = 8
    instances: int = 10


def built(chooser: Chooser, routing: Routing, count: int, draw: np.random.Generator) -> list[list[int]]:
    """Routes that a policy builds side by side: the first is the likeliest, choice by choice, the others are drawn."""
    nodes, distance = len(routing.demand), routing.distance
    done = np.zeros((count, nodes), dtype=bool)
    done[:, 0] = True
    at, load, tours = np.zeros(count, dtype=int), np.zeros(count), [list[int]() for _ in range(count)]
    width = int(chooser.settings["features"])
    for _ in range(nodes - 1):
        stuck = ~(~done & (load[:, None] + routing.demand <= routing.capacity + 1e-9)).any(-1)
        at[stuck], load[stuck] = 0, 0.0
        seen = [node_numbers(routing, distance, done[k], int(at[k]), float(load[k])) for k in range(count)]
        numbers, fits = (np.stack(x) for x in zip(*seen, strict=True))
        padded = np.zeros((count, nodes, width), dtype=np.float32)
        padded[:, :, : numbers.shape[-1]] = numbers
        with torch.no_grad():
            present = torch.ones(count, nodes, dtype=torch.bool)
            scores = chooser.model(torch.as_tensor(padded).to(chooser.device), present.to(chooser.device)).rows
        logits = np.where(fits, scores.double().cpu().numpy(), -np.inf)
        drawn = logits + draw.gumbel(size=logits.shape)
        drawn[0] = logits[0]
        at = drawn.argmax(-1)
        load += routing.demand[at]
        done[np.arange(count), at] = True
        for tour, customer in zip(tours, at.tolist(), strict=True):
            tour.append(customer)
    return tours


def cost_at(trace: list[tuple[float, float]]) -> NDArray[np.float64]:
    """[budget] the best cost when so many seconds have passed; before the first, that of the first."""
    return np.array([min((cost for t, cost in trace if t <= limit), default=trace[0][1]) for limit in GRID])


@cache
def _policy(seed: int, size: RouteSize) -> Chooser:
    """A policy trained on instances of 10 to 20 customers, anywhere in the square."""
    settings = {"iterations": size.iterations, "tasks": size.tasks, "level": TRAINED, "mixed": True}
    with trained_run(get("earli"), seed, world="routes", model="podium/chooser", **settings) as run:
        assert isinstance(run.policy, Chooser)
        return run.policy


def _searched(start: str, seed: int, size: RouteSize) -> Mapping[str, Array]:
    """The best cost over time, on held-out instances anywhere in the square and in clusters."""
    found = {}
    for clustered in (False, True):
        world = Routes(level=TESTED, clustered=clustered)
        rows = []
        for number in range(size.instances):
            routing, draw = world.routing(number, "test"), np.random.default_rng((seed, number))
            policy = _policy(seed, size) if start == "policy" else None  # trained before the clock starts
            begun = time.process_time()
            seeds = [] if start == "random" else [nearest_first(routing)]
            if policy is not None:
                seeds = built(policy, routing, K, draw)
            _, trace = genetic_search(routing, seeds, draw, seconds=GRID[-1], spent=time.process_time() - begun)
            rows.append(cost_at(trace))
        found[clustered] = np.stack(rows)
    costs = found[False]
    return {
        "early": costs[:, 0],
        "middle": costs[:, 2],
        "late": costs[:, -1],
        "won": costs[:, 0] - costs[:, -1],
        "elsewhere": found[True][:, 0],
        "seconds": np.array(GRID),
        "curve": costs.mean(0),
    }


POLICY, ALONE, NEAREST = "routes of the policy", "search alone", "nearest customer first"

STUDY = Trial(
    "earli",
    "Does a genetic search that starts from a policy's routes beat the search alone at equal time?",
    arms={
        POLICY: partial(_searched, "policy"),
        ALONE: partial(_searched, "random"),
        NEAREST: partial(_searched, "nearest"),
    },
    claims=(
        Claim("with the policy's routes costs are lower at the smallest budget", EARLY, ALONE, POLICY),
        Claim("and at a middle one", MIDDLE, ALONE, POLICY),
        Claim("the lead shrinks with time: the search alone saves more", WON, ALONE, POLICY),
        Claim("they are lower for clustered customers, too, which it was not trained on", ELSEWHERE, ALONE, POLICY),
    ),
    readings=(EARLY, MIDDLE, LATE, WON, ELSEWHERE),
    charts=(traced("curve", over="seconds", title="best cost so far", x_label="CPU seconds", log_x=True),),
    size=RouteSize(),
    quick=RouteSize(seeds=3, iterations=10, instances=3),
)
