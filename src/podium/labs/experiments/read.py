"""READ: does an advantage that is asked before acting save queries and steps? With exact values; nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial
from podium.strategies import AdvantageFilter
from podium.worlds import Carry
from podium.worlds.oracle import END

__all__ = ["STUDY", "delivered"]

WORLD = Carry(level=1, rounds=30)
STRENGTH = 0.5  # of the planner, which prefers moves that lead nearer to the end: 0 is uniform
TRIES = 3
DISCOUNT = 0.97  # of a round
SOLVED = Quantity("solved", "share of tasks solved", (0.0, 1.0))
QUERIES = Quantity("queries", "proposals in an episode")
TURNS = Quantity("turns", "actions in an episode")
REGRETTED = Quantity("regretted", "actions taken with A < 0 although one with A > 0 was proposed")


class Deliveries(StudySize):
    """How many episodes each seed has."""

    seeds: int = 8
    tasks: int = 32


def delivered(how: str, seed: int, size: Deliveries) -> Mapping[str, ArrayLike]:
    """An episode of each task. Both arms ask the same planner: `filter` takes the first action with A > 0, or else the
    best of its tries; `random` asks again with probability 1/2, and takes the last."""
    rule = AdvantageFilter(tries=TRIES, gamma=DISCOUNT)
    rows = []
    for number in range(size.tasks):
        world = WORLD.dynamics(WORLD.task(1000 * seed + number))
        planner = world.softmax(STRENGTH)
        oracle = world.oracle(planner, DISCOUNT ** (1 / len(WORLD.agents)))
        rng = np.random.default_rng((seed, number))
        state, turn, queries, regretted = 0, 0, 0, 0
        while state != END and turn < world.horizon:
            advantage = oracle.action_values(turn)[state] - oracle.values[turn, state]
            asked: list[int] = []
            done = False
            while not done:
                asked.append(int(rng.choice(len(world.actions), p=planner[state])))
                chosen = asked[-1]
                accepted = rule.accepts(float(advantage[chosen]), rule.threshold)
                accepted = accepted if how == "filter" else bool(rng.random() < 0.5)
                done = accepted or len(asked) == TRIES
            if how == "filter" and not accepted:
                chosen = max(asked, key=lambda action: advantage[action])
            regretted += bool(advantage[chosen] < 0 < advantage[asked].max())
            queries, turn = queries + len(asked), turn + 1
            state = int(world.follows[state, chosen, 0])
        rows.append((float(state == END), float(queries), float(turn), float(regretted)))
    return dict(zip(("solved", "queries", "turns", "regretted"), np.array(rows).T, strict=True))


STUDY = Trial(
    "read",
    "Does an exact advantage, asked before acting, save queries and steps beside random re-planning?",
    arms={"filter": partial(delivered, "filter"), "random": partial(delivered, "random")},
    claims=(
        Claim("the filter needs fewer queries", QUERIES, "random", "filter"),
        Claim("it needs fewer steps", TURNS, "random", "filter"),
        Claim("it solves no fewer tasks", SOLVED, "filter", "random"),
        Claim("it takes fewer bad actions although a good one was proposed", REGRETTED, "random", "filter"),
    ),
    readings=(SOLVED, QUERIES, TURNS, REGRETTED),
    size=Deliveries(),
    quick=Deliveries(seeds=3, tasks=8),
)
