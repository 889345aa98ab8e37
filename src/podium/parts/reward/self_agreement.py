"""Agreement with oneself on what one can do."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of
from podium.core.part import Columns, Need, Reward

__all__ = ["SelfAgreement", "agreement_share", "consensus_share", "majority_feasible"]


def majority_feasible(feasible: Tensor, infeasible: Tensor) -> Tensor:
    """[task] whether most votes say that it can be done; a tie says so too."""
    return feasible >= infeasible


def consensus_share(feasible: Tensor, infeasible: Tensor, asked: Tensor) -> Tensor:
    """[task] c = max(n_F, n_I) / k; votes that could not be read are in k alone."""
    return feasible.maximum(infeasible) / asked.clamp(min=1)


def agreement_share(declared: Tensor, feasible: Tensor, infeasible: Tensor, asked: Tensor) -> Tensor:
    """[task] a = the share of the k votes that give the declared label."""
    return feasible.where(declared, infeasible) / asked.clamp(min=1)


class SelfAgreement(Reward):
    """Votes of a model on tasks that it has written itself: k times, afresh, it is asked whether it can do one.

    of = "agreement": r = a, the share of votes for the label that the task was written for (`rollout.declared`);
    "consensus": r = c, the share of the more frequent label, which ignores what was declared; "vote": the rollouts are
    the votes, and r = 1 where one is the more frequent label of its task, else 0. `rollout.agreement`,
    `rollout.consensus` and `rollout.majority` (whether it is "feasible"; a tie is) are written in any case. A vote that
    cannot be read agrees with nothing.
    """

    reference = "KnowRL: Teaching Language Models to Know What They Know, arXiv 2510.11407"
    of: str = "agreement"  # or consensus, or vote

    provides = ("rollout.reward", "rollout.agreement", "rollout.consensus", "rollout.majority")

    def __post_init__(self) -> None:
        one_of(self, "of", ("agreement", "consensus", "vote"))

    @property
    def needs(self) -> tuple[Need, ...]:
        own = ("rollout.vote",) if self.of == "vote" else ()
        return ("rollout.declared", *(f"rollout.votes.{name}" for name in ("feasible", "infeasible", "total")), *own)

    def __call__(self, batch: Batch) -> Columns:
        declared = batch["rollout.declared"].bool()
        votes = tuple(batch[f"rollout.votes.{name}"].to(batch.dtype) for name in ("feasible", "infeasible", "total"))
        majority = majority_feasible(votes[0], votes[1])
        agreement, consensus = agreement_share(declared, *votes), consensus_share(*votes)
        if self.of == "vote":
            reward = (batch["rollout.vote"] == majority).to(batch.dtype)
        else:
            reward = agreement if self.of == "agreement" else consensus
        return {
            "rollout.reward": reward,
            "rollout.agreement": agreement,
            "rollout.consensus": consensus,
            "rollout.majority": majority,
        }
