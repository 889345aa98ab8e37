"""Win rates: of rollouts against a reference answer, and of a trained model against its base model."""

from __future__ import annotations

from collections.abc import Sequence

from podium.core.batch import Batch
from podium.core.build import Rollout
from podium.core.part import Columns, Metric

__all__ = ["ReferenceWins", "win_rate_gain"]


class ReferenceWins(Metric):
    """Reports `batch.wins`, the share of rollouts whose reward exceeds that of their task's demonstration (RAS).

    Of several demonstrations the best one counts. Groups without one are left out; 0 if there is none at all.
    """

    reference = "Group Relative Alignment Optimization, https://arxiv.org/abs/2508.07750"

    needs = ("rollout.reward", "rollout.demonstration")
    provides = ("batch.wins",)

    def __call__(self, batch: Batch) -> Columns:
        reward, groups = batch["rollout.reward"], batch.partition("rollout", "group")
        counted, trained = batch.counted("rollout"), batch.trained("rollout", empty=True)
        demonstration = batch["rollout.demonstration"] & (trained if counted is None else trained | counted)
        sampled = ~batch["rollout.demonstration"]
        compared = (sampled if counted is None else sampled & counted) & (groups.count(demonstration) > 0)
        won = (reward > groups.max(reward, demonstration)).to(batch.dtype)
        return {"batch.wins": batch.partition("rollout", "batch").agg.mean(won, compared)}


def win_rate_gain(trained: Sequence[Sequence[Rollout]], base: Sequence[Sequence[Rollout]]) -> float:
    """The share of tasks on which the trained model has a higher mean reward than the base model (NAG).

    Both arguments hold rollouts of the same tasks, as `held_out` returns them.
    """

    def means(groups: Sequence[Sequence[Rollout]]) -> dict[str, float]:
        return {g[0].task: sum(r.columns["reward"] for r in g) / len(g) for g in groups if g}

    after, before = means(trained), means(base)
    common = [task for task in after if task in before]
    return sum(after[task] > before[task] for task in common) / len(common) if common else float("nan")
