"""Features of an answer from regular expressions, such as whether it has a given format."""

from __future__ import annotations

import re

import torch

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.part import Annotate, Columns

__all__ = ["MatchPatterns"]

NEVER = "(?!)"  # a pattern that matches nothing


class MatchPatterns(Annotate):
    """Writes a feature `rollout.NAME` for each pattern: 1 if it matches anywhere in the rollout's text, else 0."""

    marks: tuple[tuple[str, str], ...] = (("answered", "(?m)^answer:"),)  # (NAME, regular expression)

    needs = ("rollout.text",)

    def __post_init__(self) -> None:
        for name, pattern in self.marks:
            try:
                re.compile(pattern)
            except re.error as error:
                raise PodiumError(
                    f"MatchPatterns: the pattern {pattern!r} of {name!r} cannot be read: {error}."
                ) from None

    @property
    def provides(self) -> tuple[str, ...]:
        return tuple(f"rollout.{name}" for name, _ in self.marks)

    @property
    def neutral(self) -> MatchPatterns:
        return self.replace(marks=tuple((name, NEVER) for name, _ in self.marks))

    def __call__(self, batch: Batch) -> Columns:
        texts = batch["rollout.text"]
        matches = {name: [re.search(pattern, text) is not None for text in texts] for name, pattern in self.marks}
        return {f"rollout.{name}": torch.tensor(x, device=batch.device).to(batch.dtype) for name, x in matches.items()}
