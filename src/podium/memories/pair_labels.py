"""Labels of pairs that move towards what the model itself predicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State, Table, keys
from podium.core.part import Columns
from podium.core.signal import Signal
from podium.parts.objective import Preference
from podium.parts.objective.importance import NOW

__all__ = ["PairLabels"]

OLD = Signal("logp", of="old")


class PairLabels(Memory):
    """`group.label`, the probability that the better rollout of a pair is better: 1 at first, then after each use

        l ← (1 − rate) · l + rate · σ(d),    d = D_better − D_worse before the update.

    D is that of a reference-free `Preference` with the same settings. A pair is known by its task.
    """

    reference = "Rashidinejad and Tian 2024, Sail into the Headwind, https://arxiv.org/abs/2412.09544"
    rate: float = 0.1  # from 0 (the labels stay) to 1 (they are the model's predictions)
    temperature: float = 0.5  # 1 / beta
    score: str = "mean"
    brevity: float = 1.0

    needs = ("rollout.reward", OLD)
    provides = ("group.label",)

    def __post_init__(self) -> None:
        within(self, "rate", 0, 1)
        _ = self.preference

    @property
    def preference(self) -> Preference:
        """The formula of d."""
        return Preference(temperature=self.temperature, score=self.score, against=None, brevity=self.brevity)

    def initial(self) -> State:
        return {"labels": Table(default=(1.0,))}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {"group.label": state["labels"].read(tasks)[:, 0]}

    def observe(self, state: State, batch: Batch) -> State:
        used = self.preference.members(batch)
        d = self.preference.diagnostics(batch.with_columns({NOW: batch[OLD]}))["preference.margin"]
        predicted: dict[Any, list[float]] = {}  # by task, which a batch may hold twice
        for task, paired, p in zip(keys(batch["group.task"]), used.tolist(), torch.sigmoid(d).tolist(), strict=True):
            if paired:
                predicted.setdefault(task, []).append(p)
        labels: Table = state["labels"]
        held = labels.read(list(predicted), torch.float64)
        mean = torch.tensor([math.fsum(p) / len(p) for p in predicted.values()], dtype=torch.float64)
        return {"labels": labels.write(list(predicted), (1 - self.rate) * held + self.rate * mean[:, None])}

    def scalars(self, state: State) -> dict[str, float]:
        rows = [label for (label,) in state["labels"].rows.values()]
        return {"pair_label": sum(rows) / len(rows) if rows else 1.0}
