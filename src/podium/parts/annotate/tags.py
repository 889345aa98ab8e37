"""TODO Rewards of steps for how the model says it thinks: tags, and rules that the world can check."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Annotate, Columns
from podium.parts.reward.meta_reasoning import NONE

__all__ = ["ReadTags"]


class ReadTags(Annotate):
    """`step.tag`: the first of the tags, in this order, that stands in a step's text, without its brackets; or none."""

    tags: tuple[str, ...] = ("<planning>", "<explore>", "<reflection>")

    needs = ("turn.text",)
    provides = ("step.tag",)

    def __call__(self, batch: Batch) -> Columns:
        return {"step.tag": tuple(self.tag(text) for text in batch["turn.text"])}

    def tag(self, text: str) -> str:
        return next((tag.strip("<>") for tag in self.tags if tag in text.lower()), NONE)
