"""Beta beliefs about the success rate of each task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State, Table, keys
from podium.core.part import Columns, Need
from podium.core.schedule import Number
from podium.parts.select.belief import BELIEF

__all__ = ["BetaBeliefs"]


class BetaBeliefs(Memory):
    """A Beta(a, b) belief about each task's success rate, with exponential forgetting.

        a ← prior + decay · (a − prior) + successes,  b likewise with the failures

    Tasks that were not sampled decay towards the prior with `decay_rest`, so that they become uncertain again.
    """

    reference = "VADE: Variance-Aware Dynamic Sampling; InSight, Weighted Mutual Information Data Selection"
    sees_dropped = True
    decay: Number = 0.5  # of the counts of sampled tasks, in [0, 1]; 1: nothing is forgotten
    decay_rest: Number = 0.99  # of the counts of the other tasks, in [0, 1]
    prior_successes: float = 1.0  # a of the prior, > 0
    prior_failures: float = 1.0  # b of the prior, > 0
    of: str = "rollout.correct"  # the success of a rollout, in [0, 1]

    provides = (*BELIEF, "group.belief.mean")

    def __post_init__(self) -> None:
        within(self, "decay", 0, 1)
        within(self, "decay_rest", 0, 1)
        within(self, "prior_successes", 0, open_low=True)
        within(self, "prior_failures", 0, open_low=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.of,)

    @property
    def prior(self) -> tuple[float, float]:
        """The counts a, b of a task that was never seen."""
        return self.prior_successes, self.prior_failures

    def initial(self) -> State:
        return {"counts": Table(default=self.prior)}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        a, b = state["counts"].read(tasks, torch.float64).unbind(1)
        return {**dict(zip(BELIEF, (a, b), strict=True)), "group.belief.mean": a / (a + b)}

    def decayed(self, counts: Tensor, decay: float) -> Tensor:
        """[task, 2] The counts after they have decayed towards the prior."""
        prior = torch.tensor(self.prior, dtype=torch.float64)
        return prior + decay * (counts - prior)

    def observe(self, state: State, batch: Batch) -> State:
        # Two groups of one task are one observation of it; a task without a rollout that counts was not observed.
        rollouts, groups = batch.by("rollout", "group.task"), batch.partition("rollout", "group").agg
        success = batch[self.of].double().clamp(0, 1)
        seen = torch.stack([rollouts.sum(success), rollouts.sum(1 - success)], dim=1)
        seen = torch.stack([groups.max(x) for x in seen.unbind(1)], dim=1).cpu()
        observed = groups.any(rollouts.count() > 0).tolist()
        names = keys(batch["group.task"])
        sampled = {task: row for task, row, was_observed in zip(names, seen, observed, strict=True) if was_observed}
        rest = [task for task in state["counts"].rows if task not in sampled]
        table: Table = state["counts"]
        after = self.decayed(table.read(rest, torch.float64), float(self.decay_rest))
        table = table.write(rest, after) if rest else table
        if sampled:
            before = self.decayed(state["counts"].read(list(sampled), torch.float64), float(self.decay))
            table = table.write(list(sampled), before + torch.stack(list(sampled.values())))
        return {"counts": table}
