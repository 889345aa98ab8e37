"""Routing: which loss a rollout gets."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.columns import Origin
from podium.core.errors import PodiumError, nearest, within
from podium.core.part import Columns, Keep, Need

__all__ = ["DuplicateHard", "RejectGuided", "RouteByOrigin", "RouteBySuccess", "RouteSoftly", "RouteToTeacher"]


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


class RouteSoftly(Keep):
    """The more rollouts of a group have reward 1, the more they are reinforced and the less its demonstration imitated.

    `rollout.weight.route` of its rollouts is own[k − 1] after k of them were solved, `rollout.imitation` of its
    demonstrations given[k − 1]; k = 0 counts as 1, more than there are numbers as the last.
    """

    reference = "Hybrid Post-Training, https://arxiv.org/abs/2509.04419"
    own: tuple[float, ...] = (0.0, 0.125, 0.25, 0.5, 1.0)
    given: tuple[float, ...] = (1.0, 0.5, 0.25, 0.125, 0.0)

    needs = ("rollout.reward", "rollout.demonstration")
    provides = ("rollout.weight.route", "rollout.imitation")

    def __post_init__(self) -> None:
        if not self.own or not self.given or min(*self.own, *self.given) < 0:
            raise PodiumError("RouteSoftly.own and .given need at least one number each, none of them negative.")

    def __call__(self, batch: Batch) -> Columns:
        demonstration = batch["rollout.demonstration"]
        solved = batch.by("rollout", "group").agg.count((batch["rollout.reward"] == 1) & ~demonstration)
        k = batch.spread((solved - 1).clamp(min=0), "group", "rollout")
        own, given = (batch["rollout.reward"].new_tensor(x)[k.clamp(max=len(x) - 1)] for x in (self.own, self.given))
        return {
            "rollout.weight.route": own.masked_fill(demonstration, 1),
            "rollout.imitation": given.where(demonstration, 0),
        }


class DuplicateHard(Keep):
    """All demonstrations of a task that none of its rollouts solves, the first of one that some solve, none of one that
    all solve: with two copies of each, hard tasks are seen twice. The rollouts themselves are dropped.
    """

    reference = "DRIVE: Data Curation Best Practices for RLVR in Competitive Code Generation"

    needs = ("rollout.correct", "rollout.demonstration", "rollout.index")
    provides = ("rollout.imitated", "rollout.keep.route", "group.hard")

    def __call__(self, batch: Batch) -> Columns:
        given, groups = batch["rollout.demonstration"], batch.by("rollout", "group").agg
        rate = groups.mean((batch["rollout.correct"] > 0).double())  # of the rollouts that count
        hard, solved = rate == 0, rate == 1
        among = batch.partition("rollout", "group").agg
        place = batch["rollout.index"].double()
        first = place == batch.spread(among.min(place.where(given, torch.inf)), "group", "rollout")
        enough = batch.spread(hard, "group", "rollout") | first
        imitated = given & enough & ~batch.spread(solved, "group", "rollout")
        return {"rollout.imitated": imitated, "rollout.keep.route": imitated, "group.hard": hard.to(batch.dtype)}


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


class RouteByOrigin(Keep):
    """`token.foreign`: whether somebody else than the policy wrote a token; `token.own`: the others."""

    origins: tuple[str, ...] = ("expert",)  # who else: expert, hint, copied, forced

    needs = ("token.origin",)
    provides = ("token.foreign", "token.own")

    def __post_init__(self) -> None:
        for name in self.origins:
            if name not in Origin.__members__:
                raise PodiumError(
                    f"RouteByOrigin.origins: {name!r} writes no tokens. {nearest(name, Origin.__members__)}"
                )

    def __call__(self, batch: Batch) -> Columns:
        origin = batch["token.origin"]
        foreign = sum((origin == Origin[name] for name in self.origins), origin != origin)
        return {"token.foreign": foreign, "token.own": ~foreign}


class RejectGuided(Keep):
    """Leave guided rollouts that are wrong out of the loss; they still count in the statistics of their group."""

    reference = "ICPO: In-Context Steered Policy Optimization, https://arxiv.org/abs/2510.26519"

    needs = ("rollout.guided", "rollout.correct")
    provides = ("rollout.keep.rejected",)

    def __call__(self, batch: Batch) -> Columns:
        return {"rollout.keep.rejected": ~batch["rollout.guided"] | batch["rollout.correct"].bool()}
