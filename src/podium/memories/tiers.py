"""The tier of each task: the place of its domain in an order from easy to difficult."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.memory import Memory, State
from podium.core.part import Columns

__all__ = ["Tiers"]


class Tiers(Memory):
    """Reads the domain of a task as its tier (`group.tier`): 0 for the first of the names, and so on; −1 for others."""

    reference = "Fleming-R1, https://github.com/UbiquantAI/Fleming-R1"
    keyed_by = "domain"
    names: tuple[str, ...] = ("easy", "moderate", "difficult")  # domains, from easy to difficult

    provides = ("group.tier",)

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names) or not self.names:
            raise PodiumError(f"Tiers.names = {self.names}: name each tier once.")

    def initial(self) -> State:
        return {}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        tiers = {name: tier for tier, name in enumerate(self.names)}
        return {"group.tier": torch.tensor([tiers.get(domain, -1) for domain in tasks], dtype=torch.long)}

    def observe(self, state: State, batch: Batch) -> State:
        return state
