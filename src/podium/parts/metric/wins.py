"""How often one answers better than another: than a reference answer, or than the model was before training."""

from __future__ import annotations

from collections.abc import Sequence

from podium.core.batch import Batch
from podium.core.build import Rollout
from podium.core.part import Columns, Metric

__all__ = ["ReferenceWins", "win_rate_gain"]


class ReferenceWins(Metric):
    """`batch.wins`: the share of the rollouts beside a demonstration that have a higher reward than it (RAS).

    Of several demonstrations the best one counts; 0 where there is none.
    """

    reference = "Group Relative Alignment Optimization, https://arxiv.org/abs/2508.07750"

    needs = ("rollout.reward", "rollout.demonstration")
    provides = ("batch.wins",)

    def __call__(self, batch: Batch) -> Columns:
        reward, groups = batch["rollout.reward"], batch.partition("rollout", "group")
        counted, trained = batch.counted("rollout"), batch.trained("rollout", empty=True)
        given = batch["rollout.demonstration"] & (trained if counted is None else trained | counted)
        sampled = ~batch["rollout.demonstration"]
        beside = (sampled if counted is None else sampled & counted) & (groups.count(given) > 0)
        won = (reward > groups.max(reward, given)).to(batch.dtype)
        return {"batch.wins": batch.partition("rollout", "batch").agg.mean(won, beside)}


def win_rate_gain(trained: Sequence[Sequence[Rollout]], base: Sequence[Sequence[Rollout]]) -> float:
    """The share of tasks that the trained model answers with a higher mean reward than the base model (NAG).

    Both are rollouts of the same tasks, as `held_out` returns them.
    """

    def means(groups: Sequence[Sequence[Rollout]]) -> dict[str, float]:
        return {g[0].task: sum(r.columns["reward"] for r in g) / len(g) for g in groups if g}

    own, other = means(trained), means(base)
    common = [task for task in own if task in other]
    return sum(own[task] > other[task] for task in common) / len(common) if common else float("nan")
