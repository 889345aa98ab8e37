"""Random blocks of steps: keys for comparisons among steps that need not share a state."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Annotate, Columns, Need

__all__ = ["RandomBlocks"]


class RandomBlocks(Annotate):
    """`step.block`: the steps in a random order, cut into blocks of `size`, the last one smaller."""

    reference = "SRGPO, https://github.com/WzcTHU/SeeNav-Agent"
    size: int = 16  # steps
    among: tuple[str, ...] = ()  # what the steps of a block have in common: () nothing, ("group",), ("rollout",)

    provides = ("step.block",)

    def __post_init__(self) -> None:
        within(self, "size", 1)

    @property
    def needs(self) -> tuple[Need, ...]:
        return tuple(k for k in self.among if "." in k)

    def __call__(self, batch: Batch) -> Columns:
        order = batch.by("step", *self.among).rank(batch.random("step", "blocks"))
        return {"step.block": order.div(self.size, rounding_mode="floor")}
