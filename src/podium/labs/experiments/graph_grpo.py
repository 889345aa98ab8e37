"""Graph-GRPO: do learned graphs beat fixed ones, and does credit by edges beat credit by graphs?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations

import numpy as np

from podium.evaluation.resample import Array
from podium.labs.findings import Claim, StudySize
from podium.labs.network_runs import held_out_rollouts, trained_run
from podium.labs.trial import Quantity, Trial
from podium.method import Method
from podium.methods import get
from podium.worlds.team import MEMBERS, TeamWorld

__all__ = ["STUDY", "GraphSize"]

SUCCESS = Quantity("success", "right answers", (0.0, 1.0))
EDGES = Quantity("edges", "links")
LEVEL = 2


class GraphSize(StudySize):
    """How long graphs are learned, and on how many queries they are tried."""

    seeds: int = 8
    iterations: int = 12
    tasks: int = 8
    eval_tasks: int = 120


def _learned(method: Method, seed: int, size: GraphSize) -> Mapping[str, Array]:
    """Graphs of a trained policy: a link is there where its probability is above one half."""
    sizes = {"iterations": size.iterations, "tasks": size.tasks, "level": LEVEL}
    with trained_run(method, seed, world="team", model="podium/chooser", **sizes) as run:
        groups = held_out_rollouts(run, size.eval_tasks, 1, temperature=0.0)
    return {name: np.array([float(g[0].columns[of]) for g in groups]) for name, of in COLUMNS.items()}


def _fixed(talks: Callable[[int, int, int], bool], seed: int, size: GraphSize) -> Mapping[str, Array]:
    """The same graph for every query."""
    world, count = TeamWorld(level=LEVEL), len(MEMBERS[LEVEL])
    text = " ".join(str(int(talks(a, b, count))) for a, b in combinations(range(count), 2))
    tasks = [world.task(n, "test") for n in range(size.eval_tasks)]
    info = [world.reset(task, seed * size.eval_tasks + n).act(text).info for n, task in enumerate(tasks)]
    return {name: np.array([float(x[of]) for x in info]) for name, of in COLUMNS.items()}


COLUMNS = {"success": "correct", "edges": "edges"}
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
