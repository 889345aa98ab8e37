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

    `batch.self.intrinsic`: the share of new tasks whose majority label is the declared one; `batch.self.distinct`: the
    share of written tasks that are new; `batch.self.feasible`: the share of votes for "feasible". Where the world's
    tasks are tried (`measured`), `batch.self.auc` and `batch.self.f1`: how well the share of "feasible" for each of
    them tells those with a pass rate of at least 1/2 from the others.
    """

    reference = "KnowRL: Teaching Language Models to Know What They Know, arXiv 2510.11407"
    measured: bool = True

    @property
    def needs(self) -> tuple[Need, ...]:
        own = ("declared", "majority", "written", "fresh", "votes.feasible", "votes.total")
        tried = ("able.claim", "able.rate") if self.measured else ()
        return tuple(f"rollout.{name}" for name in (*own, *tried))

    @property
    def provides(self) -> tuple[str, ...]:
        names = ("intrinsic", "distinct", "feasible", *(("auc", "f1") if self.measured else ()))
        return tuple(f"batch.self.{name}" for name in names)

    def __call__(self, batch: Batch) -> Columns:
        written = batch["rollout.written"].bool()
        fresh = written & batch["rollout.fresh"].bool()
        agree = batch["rollout.declared"].bool() == batch["rollout.majority"].bool()
        asked, feasible = (batch[f"rollout.votes.{name}"].to(batch.dtype)[fresh] for name in ("total", "feasible"))
        values = [
            agree[fresh].sum() / fresh.sum().clamp(min=1),
            fresh.sum() / written.sum().clamp(min=1),
            feasible.sum() / asked.sum().clamp(min=1),
        ]
        if self.measured:
            groups = batch.partition("rollout", "group").agg
            claim, rate = (groups.first(batch[f"rollout.able.{name}"].to(batch.dtype)) for name in ("claim", "rate"))
            known = ~(claim.isnan() | rate.isnan())  # groups that are no task of the world have neither
            claim, able = claim[known], rate[known] >= 0.5
            values += [claim_auc(claim, able), claim_f1(claim, able)]
        return {name: value.to(batch.dtype).reshape(1) for name, value in zip(self.provides, values, strict=True)}
