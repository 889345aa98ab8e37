"""MASHost: do rewards of actions keep useless agents out of a team without costing success?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from podium.core.build import Rollout
from podium.evaluation.resample import Array
from podium.labs.findings import Claim
from podium.labs.team_runs import SUCCESS, TeamSize, learned_teams, queries
from podium.labs.trial import Quantity, Trial
from podium.method import Method
from podium.methods import get
from podium.worlds.team import MEMBERS, TeamWorld
from podium.worlds.team_rules import Team

__all__ = ["STUDY", "HostSize"]

AGENTS = Quantity("agents", "agents")
LEVEL = 1


class HostSize(TeamSize):
    """How long hosts are trained, and on how many queries they build teams."""

    seeds: int = 6
    iterations: int = 80
    tasks: int = 12


def _agents(rollout: Rollout) -> float:
    """How many agents a host has added; the first one is a turn without links."""
    return sum(len(turn.ids) > 1 for turn in rollout.turns) + 1


def _built(method: Method, seed: int, size: HostSize) -> Mapping[str, Array]:
    """Teams that a trained host builds, each action the likeliest."""
    readings = {"success": lambda rollout: rollout.columns["correct"], "agents": _agents}
    return learned_teams(method, readings, seed, size, level=LEVEL, build=True)


def _whole_team(seed: int, size: HostSize) -> Mapping[str, Array]:
    """All agents, each of whom hears all before it."""
    world, roles = TeamWorld(level=LEVEL, build=True), MEMBERS[LEVEL]
    team = Team(list(roles), [tuple(range(n)) for n in range(len(roles))])
    right = [world.is_right(team, task.data["query"], chance) for task, chance in queries(world, seed, size)]
    return {"success": np.array(right, dtype=float), "agents": np.full(len(right), float(len(roles)))}


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
