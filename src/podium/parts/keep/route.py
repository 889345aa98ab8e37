"""Routing: which rollouts are reinforced, imitated or distilled, and which tokens are off-policy."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.columns import Origin
from podium.core.errors import PodiumError, nearest, within
from podium.core.part import Columns, Keep, Need

__all__ = ["DuplicateHard", "RejectGuided", "RouteByOrigin", "RouteBySuccess", "RouteSoftly", "RouteToTeacher"]


class RouteBySuccess(Keep):
    """Switches between RL and SFT per group: with more than `gate` successes its rollouts are reinforced, otherwise its
    demonstrations are imitated instead.

    A success is a sampled rollout of reward 1. Writes `rollout.reinforced` and `rollout.imitated`, which exclude each
    other, and leaves the rest of the group out of the loss. gate = −1 is RL alone.
    """

    reference = "Hybrid Post-Training, https://arxiv.org/abs/2509.04419"
    gate: int = 0  # successes, ≥ −1

    needs = ("rollout.reward", "rollout.demonstration")
    provides = ("rollout.reinforced", "rollout.imitated", "rollout.keep.route", "group.imitated")

    def __post_init__(self) -> None:
        within(self, "gate", -1)

    @property
    def neutral(self) -> RouteBySuccess:
        return self.replace(gate=-1)

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
    """Blends RL and SFT per group: the more successes, the more its rollouts weigh and the less its demonstrations.

    With k rollouts of reward 1, `rollout.weight.route` of the sampled rollouts is own[k − 1] and `rollout.imitation` of
    the demonstrations is given[k − 1]; k = 0 uses the first number, a k beyond the end the last.
    """

    reference = "Hybrid Post-Training, https://arxiv.org/abs/2509.04419"
    own: tuple[float, ...] = (0.0, 0.125, 0.25, 0.5, 1.0)  # weights of sampled rollouts by number of successes, ≥ 0
    given: tuple[float, ...] = (1.0, 0.5, 0.25, 0.125, 0.0)  # weights of demonstrations, ≥ 0

    needs = ("rollout.reward", "rollout.demonstration")
    provides = ("rollout.weight.route", "rollout.imitation")

    def __post_init__(self) -> None:
        if not self.own or not self.given or min(*self.own, *self.given) < 0:
            raise PodiumError("RouteSoftly.own and .given need at least one number each, none of them negative.")

    def __call__(self, batch: Batch) -> Columns:
        demonstration = batch["rollout.demonstration"]
        solved = batch.by("rollout", "group").agg.count((batch["rollout.reward"] == 1) & ~demonstration)
        k = batch.spread((solved - 1).clamp(min=0), "group", "rollout")
        sampled_weight, demonstration_weight = (
            batch["rollout.reward"].new_tensor(weights)[k.clamp(max=len(weights) - 1)]
            for weights in (self.own, self.given)
        )
        return {
            "rollout.weight.route": sampled_weight.masked_fill(demonstration, 1),
            "rollout.imitation": demonstration_weight.where(demonstration, 0),
        }


class DuplicateHard(Keep):
    """Difficulty-aware SFT: imitates demonstrations by the pass rate of the task and drops the sampled rollouts.

    A task that no rollout solves keeps all its demonstrations, one that some solve the first, one that all solve none.
    With two copies of each demonstration in the data, hard tasks are thus seen twice.
    """

    reference = "DRIVE: Data Curation Best Practices for RLVR in Competitive Code Generation"

    needs = ("rollout.correct", "rollout.demonstration", "rollout.index")
    provides = ("rollout.imitated", "rollout.keep.route", "group.hard")

    def __call__(self, batch: Batch) -> Columns:
        demonstration, counted = batch["rollout.demonstration"], batch.by("rollout", "group").agg
        rate = counted.mean((batch["rollout.correct"] > 0).double())
        hard, solved = rate == 0, rate == 1
        groups, index = batch.partition("rollout", "group").agg, batch["rollout.index"].double()
        first = index == batch.spread(groups.min(index.where(demonstration, torch.inf)), "group", "rollout")
        wanted = batch.spread(hard, "group", "rollout") | first
        imitated = demonstration & wanted & ~batch.spread(solved, "group", "rollout")
        return {"rollout.imitated": imitated, "rollout.keep.route": imitated, "group.hard": hard.to(batch.dtype)}


class RouteToTeacher(Keep):
    """Routes wrong rollouts for which a teacher has privileged information to distillation, all others to RL.

    Writes `rollout.distilled` and its complement `rollout.reinforced`.
    """

    reference = "SRPO: Group-Relative and Self-Distillation Policy Optimization via Sample Routing"
    available: str = "rollout.sibling"  # a boolean column: whether the teacher has any, such as a sibling's solution

    provides = ("rollout.distilled", "rollout.reinforced")

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.correct", self.available)

    def __call__(self, batch: Batch) -> Columns:
        distilled = ~batch["rollout.correct"] & batch[self.available]
        return {"rollout.distilled": distilled, "rollout.reinforced": ~distilled}


class RouteByOrigin(Keep):
    """Separates off-policy tokens (`token.foreign`) from those that the policy sampled itself (`token.own`)."""

    origins: tuple[str, ...] = ("expert",)  # which origins are off-policy: expert, hint, copied, forced

    needs = ("token.origin",)
    provides = ("token.foreign", "token.own")

    def __post_init__(self) -> None:
        for name in self.origins:
            if name not in Origin.__members__:
                raise PodiumError(
                    f"RouteByOrigin.origins: {name!r} writes no tokens. {nearest(name, Origin.__members__)}"
                )

    @property
    def neutral(self) -> RouteByOrigin:
        return self.replace(origins=())

    def __call__(self, batch: Batch) -> Columns:
        origin = batch["token.origin"]
        foreign = sum((origin == Origin[name] for name in self.origins), origin != origin)
        return {"token.foreign": foreign, "token.own": ~foreign}


class RejectGuided(Keep):
    """Leaves wrong guided rollouts out of the loss (rejection sampling); they still count in group statistics."""

    reference = "ICPO: In-Context Steered Policy Optimization, https://arxiv.org/abs/2510.26519"

    needs = ("rollout.guided", "rollout.correct")
    provides = ("rollout.keep.rejected",)

    def __call__(self, batch: Batch) -> Columns:
        return {"rollout.keep.rejected": ~batch["rollout.guided"] | batch["rollout.correct"].bool()}
