"""Credit of the edges of a graph: how often the graphs that contain an edge succeed, compared with the other edges."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Advantage, Columns
from podium.parts.advantage.normalize import Normalize

__all__ = ["EdgeSuccess"]


class EdgeSuccess(Advantage):
    """A token is an edge of a graph, 1 where it is present; tokens of a group at the same position are the same edge.

        S_e = Σ_k z_ke R_k / Σ_k z_ke,   A_e = (S_e − mean S) / (std S + ε)

    over the edges of the group that occur in one of its graphs at least; others get 0, and so do all edges of a group
    in which only one occurs. With `shrink` = c, S moves towards the mean reward of the group by n / (n + c), where n is
    how often the edge occurs. `token.present` marks the edges that a graph has, `token.success` is S.
    """

    reference = "Graph-GRPO: Stabilizing Multi-Agent Topology Learning via Group Relative Policy Optimization"
    epsilon: float = 1e-6  # > 0
    shrink: float = 0.0  # ≥ 0; 0: S as it is

    needs = ("token.id", "token.position", "rollout.reward")
    provides = ("token.advantage", "token.present", "token.success")
    normalizes = True
    centred_within = ("group",)

    def __post_init__(self) -> None:
        within(self, "epsilon", 0, open_low=True)
        within(self, "shrink", 0)

    @property
    def neutral(self) -> Normalize:
        return Normalize()

    def __call__(self, batch: Batch) -> Columns:
        present = batch["token.id"] == 1
        reward = batch.spread(batch["rollout.reward"], "rollout", "token")
        edges = batch.by("token", "group").refine(batch["token.position"])
        times = edges.agg.count(present).to(reward.dtype)
        average = edges.agg.mean(edges.real(batch.by("token", "group").mean(reward)))
        total = edges.agg.sum(reward, present) + self.shrink * average
        success = total / (times + self.shrink).clamp(min=1e-12)
        of_group, seen = edges.by("group"), times > 0
        spread = of_group.std(success, seen) + self.epsilon
        several = of_group.count(seen) > 1
        advantage = ((success - of_group.mean(success, seen)) / spread).where(seen & several, 0)
        return {
            "token.advantage": edges.spread(advantage),
            "token.present": present,
            "token.success": edges.spread(success),
        }
