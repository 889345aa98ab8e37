"""Local and global advantages, blended by the self-consistency of a group's answers."""

from __future__ import annotations

import math

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Columns, Shape
from podium.core.schedule import Number

__all__ = ["ConsistencyBlend"]


class ConsistencyBlend(Shape):
    """Blend of local and global advantages: w · A and (1 − w) · A_global, w = sigmoid(gamma · (H − rho)).

    H is the entropy of the group's answers: where they agree, the mean reward of the group is compared with that of the
    other groups instead. A_global is that mean, standardised over the batch. With `blend="losses"` it is written to
    `rollout.advantage.global`, for a term of its own; w · loss(A) is loss(w · A), since a clip depends on the sign of A
    alone. With `unrewarded="global"` rollouts whose reward is 0 have w = 0.
    """

    reference = "COPO, https://github.com/hijih/copo-code"
    gamma: Number = 20.0  # the steepness of the sigmoid
    rho: Number = 1.5  # the entropy at which both have the weight ½
    base: float = math.e  # of the logarithm in H
    blend: str = "losses"  # losses: two columns, for two terms; advantages: their sum, for one
    epsilon: float = 1e-6  # added to the std
    unrewarded: str = "blend"  # rollouts with a reward of 0: blend (as the others) or global (A_global alone)

    needs = ("rollout.advantage", "rollout.reward", "rollout.answer")

    def __post_init__(self) -> None:
        within(self, "gamma", 0)
        within(self, "base", 1, open_low=True)
        one_of(self, "blend", ("losses", "advantages"))
        one_of(self, "unrewarded", ("blend", "global"))
        within(self, "epsilon", 0, open_low=True)

    @property
    def provides(self) -> tuple[str, ...]:
        common = ("rollout.advantage", "group.consistency.entropy", "group.consistency.weight")
        return (*common, "rollout.advantage.global") if self.blend == "losses" else common

    def between(self, batch: Batch) -> Tensor:
        """[group] A_global."""
        groups = batch.by("rollout", "group")
        return groups.by().standardize(groups.agg.mean(batch["rollout.reward"]), epsilon=self.epsilon)

    def __call__(self, batch: Batch) -> Columns:
        groups = batch.by("rollout", "group")
        entropy = groups.agg.entropy("rollout.answer") / math.log(self.base)
        w = (self.gamma * (entropy - self.rho)).sigmoid()  # [group]
        share = groups.spread(w)  # [rollout]
        if self.unrewarded == "global":
            share = share.where(batch["rollout.reward"] != 0, 0)
        local = batch["rollout.advantage"] * share
        across = (1 - share) * groups.spread(self.between(batch))
        columns: Columns = {"group.consistency.entropy": entropy, "group.consistency.weight": w}
        if self.blend == "advantages":
            return columns | {"rollout.advantage": local + across}
        return columns | {"rollout.advantage": local, "rollout.advantage.global": across}
