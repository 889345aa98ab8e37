"""How well topologies rank plans of known quality, at the same number of calls of the judge. Nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import Random

import numpy as np
from numpy.typing import ArrayLike

from podium.core.batch import Batch
from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial
from podium.parts.metric import RankAgreement
from podium.strategies.judged.tournament import TOPOLOGIES, play
from podium.worlds import Trips
from podium.worlds.trips import plan_text

__all__ = ["STUDY"]

N = 8  # plans of a group
ALLOWED = 0.03  # by which a cheaper tournament may fall short of a round robin
WORLD = Trips(level=2, band=0.1, noise=0.1)
RANKS = Quantity("agreement", "rank correlation with the truth", (-1.0, 1.0))
WITHIN = Quantity("within", f"the same, less {ALLOWED} for the round robin")
CALLS = Quantity("calls", "calls of the judge")


class Groups(StudySize):
    """How many groups each seed has."""

    seeds: int = 8
    groups: int = 64


class _Judge:
    """The world's judge of a group of plans of all kinds of quality, who counts its calls."""

    def __init__(self, seed: int, group: int, calls: int) -> None:
        rng = Random(f"{seed}/{group}")
        self.task, self.calls, self.asked = WORLD.task(1000 * seed + group), calls, 0
        self.plans = [plan_text(self.task.data, rng, care=rng.random()) for _ in range(N)]
        self.truth = [WORLD.quality(self.task, plan) for plan in self.plans]

    def duel(self, i: int, j: int) -> tuple[float, float]:
        """The mean scores of two plans, in alternating order."""
        scores = np.zeros(2)
        for call in range(self.calls):
            self.asked += 1
            first, second = (j, i) if call % 2 else (i, j)
            said = WORLD.compare(self.task, self.plans[first], self.plans[second], self.asked)
            scores += said[::-1] if call % 2 else said
        return float(scores[0]) / self.calls, float(scores[1]) / self.calls

    def rating(self, i: int) -> float:
        """The mean rating of a plan."""
        self.asked += self.calls
        seeds = range(i * self.calls, (i + 1) * self.calls)
        return sum(WORLD.rate(self.task, self.plans[i], seed) for seed in seeds) / self.calls


def ranked(topology: str, calls: int, allowed: float, seed: int, size: Groups) -> Mapping[str, ArrayLike]:
    """A tournament, or ratings, of each group of a seed, with so many calls for each comparison or rating."""
    judges = [_Judge(seed, group, calls) for group in range(size.groups)]
    rewards: list[float] = []
    for judge in judges:
        if topology == "pointwise":
            rewards += map(judge.rating, range(N))
        else:
            rewards += play(TOPOLOGIES[topology](N, seed), judge.duel).reward
    groups = [group for group in range(size.groups) for _ in range(N)]
    batch = Batch.from_rewards(
        rewards, groups, {"rollout.quality": [quality for judge in judges for quality in judge.truth]}
    )
    agreement = RankAgreement("rollout.reward").by_group(batch).nan_to_num(0.0).numpy()
    return {"agreement": agreement, "within": agreement - allowed, "calls": [float(j.asked) for j in judges]}


# Groups of 8: 28 calls each, and 32 for the pointwise judge.
STUDY = Trial(
    "arenarl-ranks",
    "With a judge who squeezes single scores and errs, which tournament ranks best for the same number of calls?",
    arms={
        "pointwise": partial(ranked, "pointwise", 4, 0.0),
        "anchor": partial(ranked, "anchor", 4, 0.0),
        "seeded": partial(ranked, "seeded", 2, 0.0),
        "round robin": partial(ranked, "round_robin", 1, ALLOWED),
    },
    claims=(
        Claim("a seeded elimination ranks better than a pointwise judge", RANKS, "seeded", "pointwise"),
        Claim("it ranks at least as well as an anchor", RANKS, "seeded", "anchor"),
        Claim(f"it falls short of a round robin by less than {ALLOWED}", WITHIN, "seeded", "round robin"),
    ),
    readings=(RANKS, WITHIN, CALLS),
    size=Groups(),
    quick=Groups(seeds=3, groups=32),
)
