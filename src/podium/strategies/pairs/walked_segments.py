"""Segments of walks through a world whose values are known exactly, with what each of them has lost."""

from __future__ import annotations

import dataclasses

import numpy as np

from podium.core.errors import within
from podium.core.part import Strategy
from podium.core.streams import key
from podium.strategies.requests import Plan, Recite, TaskRequest, Wave, rollouts_of

__all__ = ["WalkedSegments"]


class WalkedSegments(Strategy):
    """The first turns of `n` walks of a middling policy through each task; no language model samples them.

    The policy is softmax(−strength · distance to the goal). `rollout.regret` is Σ_t γ^t (V*(s_t) − Q*(s_t, a_t)), by
    which people are said to prefer one segment to another; `rollout.reward` is what a segment has earned. A task has
    the same segments whenever it comes back. The world must be a finite decision process (keydoor, lookup).
    """

    reference = "Hejna et al. 2023, Contrastive Preference Learning, https://arxiv.org/abs/2310.13639"
    n: int = 4
    turns: int | None = None  # of a segment at most; None: whole episodes
    strength: float = 0.5  # of the policy; 0: uniform over actions that make sense
    gamma: float = 0.9  # the discount of V* and Q*, in (0, 1]

    needs = ("task.dynamics",)
    provides = ("rollout.purpose", "rollout.demonstration", "rollout.sampled", "rollout.regret")

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "turns", 1, optional=True)
        within(self, "strength", 0)
        within(self, "gamma", 0, 1, open_low=True)

    def plan(self, task: TaskRequest) -> Plan:
        assert task.world is not None
        process = task.world.dynamics(task.task)
        rng = np.random.default_rng(key(0, tuple(map(ord, task.task.key))))
        walks = process.oracle(process.softmax(self.strength)).walks(self.n, rng)
        texts = [[process.actions[a] for a in walks.action[walks.rollout == i]] for i in range(self.n)]
        columns = {"demonstration": True, "sampled": False}
        wave: Wave = [
            Recite(task, texts=tuple(turns[: self.turns]), index=i, columns=columns) for i, turns in enumerate(texts)
        ]
        return [
            dataclasses.replace(r, columns={**r.columns, "regret": process.regret(r, self.gamma)})
            for r in rollouts_of((yield wave))
        ]
