"""How much of its solution each task needs as a hint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.memory import Memory, State, Table
from podium.core.part import Columns

__all__ = ["HintRates"]


class HintRates(Memory):
    """The share of its solution that each task needed as a hint at its last visit (`group.hint.rate`); −1 at first."""

    reference = "SEELE, https://arxiv.org/abs/2509.06923"

    needs = ("rollout.help.next",)
    provides = ("group.hint.rate",)

    def initial(self) -> State:
        return {"rates": Table(default=(-1.0,))}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {"group.hint.rate": state["rates"].read(tasks, torch.float64)[:, 0]}

    def observe(self, state: State, batch: Batch) -> State:
        # Of several groups of one task the largest rate counts.
        tasks, rollouts = batch["group.task"], batch.by("rollout", "group.task")
        after = batch.partition("rollout", "group").agg.max(rollouts.max(batch["rollout.help.next"].double())).cpu()
        before = state["rates"].read(tasks, torch.float64)[:, 0]
        return {"rates": state["rates"].write(tasks, after.where(after.isfinite(), before)[:, None])}
