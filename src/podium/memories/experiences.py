"""A numbered list of experiences, which takes the place of weights that learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.memory import Memory, State
from podium.core.part import Columns
from podium.memories.text_edits import Experience, apply_edits, numbered, read_edits

__all__ = ["Experiences"]


class Experiences(Memory):
    """Short texts that stand in the prompt, edited once per batch by the plan of edits that the strategy writes.

    `group.experiences` are the texts with their weights, in the order of their ids G0, G1, …; `batch.experiences` is
    how many there are. Edits of one batch refer to the ids as they were shown; afterwards all are renumbered.
    """

    reference = "Training-Free GRPO, https://github.com/TencentCloudADP/youtu-agent"
    start: tuple[str, ...] = ()  # what is shown before anything has been learnt

    needs = ("rollout.edits",)
    provides = ("group.experiences", "batch.experiences")

    @property
    def remembers_tasks(self) -> bool:
        return False  # its texts are for all tasks

    def initial(self) -> State:
        return {"texts": [[text, 0.0] for text in self.start]}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        texts = tuple(Experience(*row) for row in state["texts"])
        return {"group.experiences": (texts,) * len(tasks), "batch.experiences": torch.tensor([float(len(texts))])}

    def observe(self, state: State, batch: Batch) -> State:
        plans = sorted({plan for plan in batch["rollout.edits"] if plan})  # one, unless the batch was sampled in rounds
        library = numbered(Experience(*row) for row in state["texts"])
        edits = [edit for plan in plans for edit in read_edits(plan) or ()]
        return {"texts": [list(experience) for experience in apply_edits(library, edits).values()]}
