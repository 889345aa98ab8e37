"""Random blocks of steps: a key for step-level baselines that does not require a shared state."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Annotate, Columns, Need

__all__ = ["RandomBlocks"]


class RandomBlocks(Annotate):
    """Writes `step.block`, a random partition of the steps into blocks of `size`; the last block may be smaller."""

    reference = "SRGPO, https://github.com/WzcTHU/SeeNav-Agent"
    size: int = 16  # steps, ≥ 1
    among: tuple[str, ...] = ()  # the key that the steps of a block share: () none, ("group",) or ("rollout",)

    provides = ("step.block",)

    def __post_init__(self) -> None:
        within(self, "size", 1)

    @property
    def needs(self) -> tuple[Need, ...]:
        return tuple(k for k in self.among if "." in k)

    def __call__(self, batch: Batch) -> Columns:
        order = batch.by("step", *self.among).rank(batch.random("step", "blocks"))
        return {"step.block": order.div(self.size, rounding_mode="floor")}
