"""MASHost: do rewards of actions keep useless agents out of a team without costing success?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from podium.evaluation.resample import Array
from podium.labs.findings import Claim, StudySize
from podium.labs.network_runs import held_out_rollouts, trained_run
from podium.labs.trial import Quantity, Trial
from podium.method import Method
from podium.methods import get
from podium.worlds.team import MEMBERS, TeamWorld
from podium.worlds.team_rules import Team

__all__ = ["STUDY", "HostSize"]

SUCCESS = Quantity("success", "right answers", (0.0, 1.0))
AGENTS = Quantity("agents", "agents")
LEVEL = 1


class HostSize(StudySize):
    """How long hosts are trained, and on how many queries they build teams."""

    seeds: int = 6
    iterations: int = 80
    tasks: int = 12
    eval_tasks: int = 120


def _built(method: Method, seed: int, size: HostSize) -> Mapping[str, Array]:
    """Teams that a trained host builds, each action the likeliest."""
    sizes = {"iterations": size.iterations, "tasks": size.tasks, "level": LEVEL, "build": True}
    with trained_run(method, seed, world="team", model="podium/chooser", **sizes) as run:
        groups = held_out_rollouts(run, size.eval_tasks, 1, temperature=0.0)
    rollouts = [group[0] for group in groups]
    return {
        "success": np.array([float(r.columns["correct"]) for r in rollouts]),
        "agents": np.array([float(len([t for t in r.turns if len(t.ids) > 1])) + 1 for r in rollouts]),
    }


def _whole_team(seed: int, size: HostSize) -> Mapping[str, Array]:
    """All agents, each of whom hears all before it."""
    world, roles = TeamWorld(level=LEVEL, build=True), MEMBERS[LEVEL]
    team = Team(list(roles), [tuple(range(n)) for n in range(len(roles))])
    tasks = [world.task(n, "test") for n in range(size.eval_tasks)]
    seeds = range(seed * size.eval_tasks, (seed + 1) * size.eval_tasks)
    right = [world.is_right(team, task.data["query"], n) for task, n in zip(tasks, seeds, strict=True)]
    return {"success": np.array(right, dtype=float), "agents": np.full(len(tasks), float(len(roles)))}


BOTH, OUTCOME, WHOLE = "outcome and actions", "outcome alone", "the whole team"

STUDY = Trial(
    "mashost",
    "Do rewards of actions keep useless agents out of a team that a host builds, without costing right answers?",
    arms={
        BOTH: partial(_built, get("mashost")),
        OUTCOME: partial(_built, get("mashost@outcome")),
        WHOLE: _whole_team,
    },
    claims=(
        Claim("a trained host is right more often than the whole team", SUCCESS, BOTH, WHOLE),
        Claim("the outcome alone leaves more agents in", AGENTS, OUTCOME, BOTH),
        Claim("rewards of actions do not cost right answers", SUCCESS, BOTH, OUTCOME),
    ),
    readings=(SUCCESS, AGENTS),
    size=HostSize(),
    quick=HostSize(seeds=3, iterations=10, eval_tasks=40),
)
