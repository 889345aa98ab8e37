"""Graph-GRPO: do learned graphs beat fixed ones, and does credit by edges beat credit by graphs?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations

import numpy as np

from podium.core.build import Rollout
from podium.evaluation.resample import Array
from podium.labs.findings import Claim
from podium.labs.team_runs import SUCCESS, TeamSize, learned_teams, queries
from podium.labs.trial import Quantity, Trial
from podium.method import Method
from podium.methods import get
from podium.worlds.team import MEMBERS, TeamWorld

__all__ = ["STUDY", "GraphSize"]

EDGES = Quantity("edges", "links")
LEVEL = 2
COLUMNS = {"success": "correct", "edges": "edges"}


class GraphSize(TeamSize):
    """How long graphs are learned, and on how many queries they are tried."""

    seeds: int = 8


def _learned(method: Method, seed: int, size: GraphSize) -> Mapping[str, Array]:
    """Graphs of a trained policy: a link is there where its probability is above one half."""
    readings = {name: partial(_column, of) for name, of in COLUMNS.items()}
    return learned_teams(method, readings, seed, size, level=LEVEL)


def _column(name: str, rollout: Rollout) -> float:
    return float(rollout.columns[name])


def _fixed(talks: Callable[[int, int, int], bool], seed: int, size: GraphSize) -> Mapping[str, Array]:
    """The same graph for every query."""
    world, count = TeamWorld(level=LEVEL), len(MEMBERS[LEVEL])
    text = " ".join(str(int(talks(a, b, count))) for a, b in combinations(range(count), 2))
    info = [world.reset(task, chance).act(text).info for task, chance in queries(world, seed, size)]
    return {name: np.array([float(x[of]) for x in info]) for name, of in COLUMNS.items()}


EDGE, GRAPH, STAR, CHAIN, COMPLETE = "credit by edges", "credit by graphs", "star", "chain", "complete"

STUDY = Trial(
    "graph-grpo",
    "Do learned graphs of who talks to whom beat fixed ones, and does credit by edges beat credit by graphs?",
    arms={
        EDGE: partial(_learned, get("graph-grpo")),
        GRAPH: partial(_learned, get("graph-grpo@graph")),
        STAR: partial(_fixed, lambda a, b, count: b == count - 1),
        CHAIN: partial(_fixed, lambda a, b, count: b == a + 1),
        COMPLETE: partial(_fixed, lambda a, b, count: True),
    },
    claims=(
        Claim("learned graphs are right more often than a star", SUCCESS, EDGE, STAR),
        Claim("learned graphs are right more often than a chain", SUCCESS, EDGE, CHAIN),
        Claim("learned graphs are right more often than the complete graph", SUCCESS, EDGE, COMPLETE),
        Claim("the complete graph has more links", EDGES, COMPLETE, EDGE),
        Claim("credit by edges is right more often than credit by graphs", SUCCESS, EDGE, GRAPH),
    ),
    readings=(SUCCESS, EDGES),
    size=GraphSize(),
    quick=GraphSize(seeds=3, iterations=6, eval_tasks=40),
)
