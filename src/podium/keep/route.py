"""Routing: which loss a rollout gets."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Keep, Need

__all__ = ["RouteBySuccess", "RouteToTeacher"]


class RouteBySuccess(Keep):
    """A group with more than `gate` rollouts of reward 1 is reinforced; another drops them for its demonstrations.

    No rollout is in both branches, and the others of its group are in neither.
    """

    reference = "Hybrid Post-Training, https://arxiv.org/abs/2509.04419"
    gate: int = 0  # rollouts; −1: always reinforced

    needs = ("rollout.reward", "rollout.demonstration")
    provides = ("rollout.reinforced", "rollout.imitated", "rollout.keep.route", "group.imitated")

    def __post_init__(self) -> None:
        within(self, "gate", -1)

    def __call__(self, batch: Batch) -> Columns:
        demonstration = batch["rollout.demonstration"]
        solved = (batch["rollout.reward"] == 1) & ~demonstration
        groups = batch.by("rollout", "group").agg
        failed = groups.count(solved) <= self.gate  # [group]
        enough = batch.spread(~failed, "group", "rollout")
        reinforced, imitated = ~demonstration & enough, demonstration & ~enough
        return {
            "rollout.reinforced": reinforced,
            "rollout.imitated": imitated,
            "rollout.keep.route": reinforced | imitated,
            "group.imitated": failed,
        }


class RouteToTeacher(Keep):
    """A wrong rollout for which a teacher has something to go by is distilled; every other one is reinforced."""

    reference = "SRPO: Group-Relative and Self-Distillation Policy Optimization via Sample Routing"
    available: str = "rollout.sibling"  # a boolean column: whether there is help, such as another one's right solution

    provides = ("rollout.distilled", "rollout.reinforced")

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.correct", self.available)

    def __call__(self, batch: Batch) -> Columns:
        distilled = ~batch["rollout.correct"] & batch[self.available]
        return {"rollout.distilled": distilled, "rollout.reinforced": ~distilled}
