"""Planning with sixty-four actions from few samples: how coarse should the actions be grouped?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podium.labs.charts import traced
from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial
from podium.tables.action_groups import best_grouping, group_members, lifted_process, policy_values, value_iteration

__all__ = ["STUDY", "GroupingSize", "clustered_process", "nested_groupings", "planned_loss"]

Floats = NDArray[np.float64]
Groups = NDArray[np.int64]
STATES, ACTIONS, CLUSTERS, GAMMA = 6, 64, 8, 0.9
UNLIKE = 0.15  # the share of an action's reward and transitions that is its own
LEVELS = (1, 2, 4, 8, 16, 32, 64)
FEW, MANY = 128, 8192  # samples per state
LOSS = Quantity("loss", "loss of value", (0.0, np.inf))
GROUPS = Quantity("groups", "groups of the best level", (1.0, float(ACTIONS)))


class GroupingSize(StudySize):
    """How many decision processes, and how often each budget of samples is drawn."""

    processes: int = 16


def clustered_process(generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Rewards [state, action] in [0, 1] and transitions [state, action, state]: (1 − β) times what the hidden cluster
    has in common plus β times what is the action's own."""
    cluster = generator.permutation(np.repeat(np.arange(CLUSTERS), ACTIONS // CLUSTERS))
    common_r, common_p = generator.random((STATES, CLUSTERS)), generator.dirichlet(np.ones(STATES), (STATES, CLUSTERS))
    own_r, own_p = generator.random((STATES, ACTIONS)), generator.dirichlet(np.ones(STATES), (STATES, ACTIONS))
    reward = (1 - UNLIKE) * common_r[:, cluster] + UNLIKE * own_r
    return reward, (1 - UNLIKE) * common_p[:, cluster] + UNLIKE * own_p


def nested_groupings(reward: Floats, transition: Floats, noise: float, generator: np.random.Generator) -> list[Groups]:
    """A grouping per level, by complete linkage on what is known beforehand of each action: its rewards and transitions
    with noise."""
    from scipy.cluster.hierarchy import fcluster, linkage  # type: ignore[import-untyped]

    known = np.concatenate([reward.T, transition.transpose(1, 0, 2).reshape(ACTIONS, -1)], 1)
    tree = linkage(known + noise * generator.standard_normal(known.shape), "complete")
    return [fcluster(tree, level, "maxclust").astype(np.int64) - 1 for level in LEVELS]


def planned_loss(
    reward: Floats, transition: Floats, group: Groups, samples: int, generator: np.random.Generator
) -> float:
    """Estimate the lifted process from samples per state that the groups share, plan in it, and play the plan: the
    largest loss of value against the best single actions."""
    member = group_members(group)
    each = max(1, samples // len(member))
    mean, chance = reward @ member.T, np.einsum("ga,sat->sgt", member, transition)
    seen_r = generator.binomial(each, mean) / each  # rewards are 0 or 1
    seen_p = generator.multinomial(each, chance) / each
    value = value_iteration(seen_r, seen_p, GAMMA, rounds=200)
    choice = (seen_r + GAMMA * seen_p @ value).argmax(1)
    found = policy_values(reward, transition, member[choice], GAMMA)
    return float((value_iteration(reward, transition, GAMMA) - found).max())


def _losses(seed: int, size: GroupingSize, samples: int) -> tuple[Floats, Floats, list[int]]:
    """[process, level] losses, [process] the number of groups that the selector takes, and the numbers of groups."""
    loss, chosen = np.zeros((size.processes, len(LEVELS))), np.zeros(size.processes)
    for n in range(size.processes):
        generator = np.random.default_rng((seed, n))
        reward, transition = clustered_process(generator)
        groupings = nested_groupings(reward, transition, 0.05, generator)
        counts = [int(group.max()) + 1 for group in groupings]
        for place, group in enumerate(groupings):
            loss[n, place] = planned_loss(reward, transition, group, samples, np.random.default_rng((seed, n, place)))
        width = [lifted_process(reward, transition, group, GAMMA).reward_spread for group in groupings]
        chosen[n] = best_grouping(counts, width, samples)[1]
    return loss, chosen, list(LEVELS)


def _arm(samples: int, level: int | None, seed: int, size: GroupingSize) -> Mapping[str, Any]:
    """Planning at a level, or at the level that the sum of width and sampling error picks."""
    loss, chosen, levels = _losses(seed, size, samples)
    taken = chosen.astype(int) if level is None else np.full(size.processes, levels.index(level))
    best = np.array(levels)[loss.argmin(1)]
    return {
        "loss": loss[np.arange(size.processes), taken],
        "groups": best.astype(float),
        "level": np.array(levels, dtype=float),
        "curve": loss.mean(0),
    }


STUDY = Trial(
    "action-grouping",
    "With few samples, do grouped actions plan better than single ones, and what is lost by too few groups?",
    arms={
        f"{samples} samples, {name}": partial(_arm, samples, level)
        for samples in (FEW, MANY)
        for name, level in (("one group", 1), ("8 groups", 8), ("single actions", 64), ("chosen", None))
    },
    claims=(
        Claim(
            "with few samples a moderate grouping loses less than single actions",
            LOSS,
            f"{FEW} samples, single actions",
            f"{FEW} samples, 8 groups",
        ),
        Claim("it loses less than one group", LOSS, f"{FEW} samples, one group", f"{FEW} samples, 8 groups"),
        Claim(
            "more samples allow more groups",
            GROUPS,
            f"{MANY} samples, single actions",
            f"{FEW} samples, single actions",
        ),
        Claim(
            "a level that is chosen by width and samples loses less than single actions",
            LOSS,
            f"{FEW} samples, single actions",
            f"{FEW} samples, chosen",
        ),
    ),
    readings=(LOSS, GROUPS),
    charts=(traced("curve", over="level", title="loss over the number of groups", x_label="groups", log_x=True),),
    size=GroupingSize(seeds=8),
    quick=GroupingSize(seeds=3, processes=6),
)
