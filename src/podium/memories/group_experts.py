"""Success rates of tasks from overlapping groups, combined by sleeping experts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State, Table, keys
from podium.core.part import Columns
from podium.core.schedule import Number
from podium.tables.sleeping_experts import SleepingExperts

__all__ = ["GroupExperts"]

Card = tuple[Any, str, str]  # the key, the domain and the prompt of a task


class GroupExperts(Memory):
    """The success rate of a task, predicted by the groups that it belongs to: everybody, its domain, the length of its
    prompt (by powers of two) and the task itself (`group.experts.value`).

        v = Σ_g p_g · (prior/2 + successes_g) / (prior + samples_g)

    p are AdaNormalHedge's weights of the groups that the task is in; its regrets are of squared errors. So a task that
    was never seen starts from what is known of tasks like it, and one with a long history of its own is predicted by
    that. Counts of all groups decay with every iteration, since the policy changes.
    """

    reference = "Oracle Efficient Algorithms for Groupwise Regret, https://arxiv.org/abs/2310.04652"
    sees_dropped = True
    keyed_by = "card"
    decay: Number = 0.9  # of counts with every iteration, in [0, 1]
    prior: float = 1.0  # made-up samples of each group, half of them right, > 0

    needs = ("rollout.domain", "rollout.prompt", "rollout.correct", "group.task")
    provides = ("group.experts.value",)

    def __post_init__(self) -> None:
        within(self, "decay", 0, 1)
        within(self, "prior", 0, open_low=True)

    def initial(self) -> State:
        return {"groups": Table(default=(0.0, 0.0, 0.0, 0.0))}  # successes, samples, regret, scale

    @staticmethod
    def groups_of(card: Card | Any) -> tuple[str, ...]:
        """The names of a task's groups, the widest first. Of a task that is known by its key alone: everybody and
        itself."""
        if not isinstance(card, tuple):
            return ("everybody", f"task {card}")
        task, domain, prompt = card
        return ("everybody", f"domain {domain}", f"length {len(prompt).bit_length()}", f"task {task}")

    def _rates(self, rows: torch.Tensor) -> torch.Tensor:
        """[group] the success rate of each."""
        return (self.prior / 2 + rows[:, 0]) / (self.prior + rows[:, 1])

    @staticmethod
    def _experts(rows: torch.Tensor) -> SleepingExperts:
        return SleepingExperts(len(rows), rows[:, 2].numpy().copy(), rows[:, 3].numpy().copy())

    def recall(self, state: State, tasks: Sequence[Card | Any]) -> Columns:
        values = []
        for card in keys(tasks):
            rows = state["groups"].read(self.groups_of(card), torch.float64)
            p = self._experts(rows).probability(np.ones(len(rows), dtype=bool))
            values.append(float(torch.from_numpy(p) @ self._rates(rows)))
        return {"group.experts.value": torch.tensor(values, dtype=torch.float64)}

    def observe(self, state: State, batch: Batch) -> State:
        table: Table = state["groups"]
        decay = torch.tensor([self.decay, self.decay, 1.0, 1.0], dtype=torch.float64)
        names = list(table.rows)
        if names:
            table = table.write(names, table.read(names, torch.float64) * decay)
        # Every task is judged by what was known before the batch; regrets are booked in the order of the tasks.
        before = table
        for card, rights in sorted(self._seen(batch).items(), key=lambda pair: tuple(map(str, pair[0]))):
            groups = self.groups_of(card)
            rate = sum(sorted(rights)) / len(rights)
            loss = (self._rates(before.read(groups, torch.float64)) - rate) ** 2
            rows = table.read(groups, torch.float64)
            experts = self._experts(rows)
            experts.update(np.ones(len(groups), dtype=bool), loss.numpy())
            more = torch.tensor([sum(sorted(rights)), len(rights)], dtype=torch.float64) + rows[:, :2]
            table = table.write(
                groups, torch.cat([more, torch.tensor(np.stack([experts.regret, experts.scale], 1))], 1)
            )
        return {"groups": table}

    @staticmethod
    def _seen(batch: Batch) -> dict[Card, list[float]]:
        """The outcomes of the rollouts that count, by task."""
        counted = batch.by("rollout").enters()
        enters = [True] * len(batch) if counted is None else counted.tolist()
        names = keys(batch["group.task"])
        tasks = [names[n] for n in batch.partition("rollout", "group").index.tolist()]
        correct = batch["rollout.correct"].double().clamp(0, 1).tolist()
        columns = (tasks, batch["rollout.domain"], batch["rollout.prompt"], correct, enters)
        found: dict[Card, list[float]] = {}
        for task, domain, prompt, right, counts in zip(*columns, strict=True):
            if counts:
                found.setdefault((task, domain, prompt), []).append(right)
        return found
