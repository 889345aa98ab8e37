"""TODO Rewards for a feature of the answer, such as a tool call, where it helps."""

from __future__ import annotations

import re

import torch

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.part import Annotate, Columns

__all__ = ["MatchPatterns"]


class MatchPatterns(Annotate):
    """For each mark, whether its pattern stands in the text of a rollout: 1 or 0 in a column `rollout.NAME`."""

    marks: tuple[tuple[str, str], ...] = (("answered", "(?m)^answer:"),)  # names, and regular expressions

    needs = ("rollout.text",)

    def __post_init__(self) -> None:
        for name, pattern in self.marks:
            try:
                re.compile(pattern)
            except re.error as error:
                raise PodiumError(f"Marked: the pattern {pattern!r} of {name!r} cannot be read: {error}.") from None

    @property
    def provides(self) -> tuple[str, ...]:
        return tuple(f"rollout.{name}" for name, _ in self.marks)

    def __call__(self, batch: Batch) -> Columns:
        texts = batch["rollout.text"]
        found = {name: [re.search(pattern, text) is not None for text in texts] for name, pattern in self.marks}
        return {f"rollout.{name}": torch.tensor(x, device=batch.device).to(batch.dtype) for name, x in found.items()}
