"""What a model knows about what it can do."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.part import Columns, Metric, Need

__all__ = ["SelfKnowledge", "claim_auc", "claim_f1"]


def claim_auc(claim: Tensor, able: Tensor) -> Tensor:
    """How often a task that can be done is claimed more than one that cannot; ties count half, and so does a batch with
    tasks of one kind only."""
    ahead = (claim[able][:, None] - claim[~able][None]).reshape(-1)
    return ahead.sign().mean() / 2 + 0.5 if len(ahead) else claim.new_tensor(0.5)


def claim_f1(claim: Tensor, able: Tensor) -> Tensor:
    """2 TP / (2 TP + FP + FN) of the claims of at least 1/2; 0 where nothing can be done and nothing is claimed."""
    claimed = claim >= 0.5
    right, wrong = (claimed & able).sum(), (claimed ^ able).sum()
    return 2 * right / (2 * right + wrong).clamp(min=1)


class SelfKnowledge(Metric):
    """Reports what a policy knows about what it can do, from the tasks that it wrote and those of the world.

    `batch.self.intrinsic`: the share of new tasks whose majority label is the declared one; `batch.self.consensus`: the
    mean share of votes for the majority label; `batch.self.distinct`: the share of written tasks that are new;
    `batch.self.feasible`: the share of votes for "feasible". Where the world's
    tasks are tried (`measured`), `batch.self.auc` and `batch.self.f1`: how well the share of "feasible" for each of
    them tells those with a pass rate of at least 1/2 from the others.
    """

    reference = "KnowRL: Teaching Language Models to Know What They Know, arXiv 2510.11407"
    measured: bool = True

    @property
    def needs(self) -> tuple[Need, ...]:
        own = ("declared", "majority", "consensus", "distinct", "votes.feasible", "votes.total")
        tried = ("able.claim", "able.rate") if self.measured else ()
        return tuple(f"rollout.{name}" for name in (*own, *tried))

    @property
    def provides(self) -> tuple[str, ...]:
        names = ("intrinsic", "consensus", "distinct", "feasible", *(("auc", "f1") if self.measured else ()))
        return tuple(f"batch.self.{name}" for name in names)

    def __call__(self, batch: Batch) -> Columns:
        rollouts, groups = batch.by("rollout", "batch").agg, batch.by("rollout", "group").agg
        agree = batch["rollout.declared"].bool() == batch["rollout.majority"].bool()
        feasible, total, distinct = (
            batch[f"rollout.{name}"].to(batch.dtype) for name in ("votes.feasible", "votes.total", "distinct")
        )
        values = [
            rollouts.mean(agree.to(batch.dtype)),
            rollouts.mean(batch["rollout.consensus"].to(batch.dtype)),
            rollouts.mean(distinct),
            rollouts.sum(feasible) / rollouts.sum(total).clamp(min=1),
        ]
        if self.measured:
            there = groups.count() > 0  # some of what was written for the task is new
            claim, rate = (groups.max(batch[f"rollout.able.{name}"].to(batch.dtype)) for name in ("claim", "rate"))
            claim, able = claim[there], rate[there] >= 0.5
            values += [claim_auc(claim, able), claim_f1(claim, able)]
        return {name: value.to(batch.dtype).reshape(1) for name, value in zip(self.provides, values, strict=True)}
