"""The tag by which a step declares its kind of reasoning: planning, exploring or reflecting."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Annotate, Columns
from podium.parts.reward.meta_reasoning import NONE

__all__ = ["ReadTags"]


class ReadTags(Annotate):
    """Writes `step.tag`: the first of `tags` that occurs in the step's text, without brackets, or "none"."""

    tags: tuple[str, ...] = ("<planning>", "<explore>", "<reflection>")  # in order of precedence

    needs = ("turn.text",)
    provides = ("step.tag",)

    @property
    def neutral(self) -> ReadTags:
        return self.replace(tags=())

    def __call__(self, batch: Batch) -> Columns:
        return {"step.tag": tuple(self.tag(text) for text in batch["turn.text"])}

    def tag(self, text: str) -> str:
        """The tag of one step, ignoring case."""
        return next((tag.strip("<>") for tag in self.tags if tag in text.lower()), NONE)
