"""Rewards without labels: the rollouts of a task vote on its answer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Columns, Reward
from podium.core.partition import Partition
from podium.core.schedule import Number

__all__ = ["Majority", "PseudoLabel", "parsed"]


def parsed(batch: Batch) -> Tensor:
    """[rollout] whether it has an answer at all."""
    return torch.tensor([bool(answer) for answer in batch["rollout.answer"]], device=batch.device)


class Majority(Reward):
    """r = weight · vote − entropy_weight · H/ln K: the vote is [answer = the most frequent one of the group], or softly
    the share p of the group that gives the same answer; H = −Σ p ln p of its K different answers.

    Rollouts that count vote, whether they are trained or not; a tie goes to the answer that was given first. One
    without an answer has no vote and gets 0, or votes for having none (`empty="votes"`). A group without any vote is
    not trained. The true label is never read. H is one number a group, which baselines of the group remove;
    `entropy_of="own"` takes by how much it rises through this very answer.
    """

    reference = "TTRL, https://arxiv.org/abs/2504.16084; TTRV, https://github.com/Akshit21112002/TTRV"
    soft: bool = False
    weight: Number = 1.0
    entropy_weight: Number = 0.0
    entropy_of: str = "group"  # or own
    empty: str = "dropped"  # an answer that cannot be read: dropped, or votes

    needs = ("rollout.answer",)
    provides = (
        "rollout.reward",
        "rollout.reward.majority",
        "rollout.share",
        "group.majority",
        "group.disagreement",
        "group.keep.voted",
    )

    def __post_init__(self) -> None:
        one_of(self, "entropy_of", ("group", "own"))
        one_of(self, "empty", ("dropped", "votes"))

    def votes(self, batch: Batch) -> Partition:
        """The rollouts that vote, by group."""
        return batch.by("rollout", "group", where=None if self.empty == "votes" else parsed(batch))

    def leader(self, batch: Batch) -> Tensor:
        """[rollout] True at one rollout of each group that gives its most frequent answer."""
        votes = self.votes(batch)
        return votes.argmax(votes.refine("rollout.answer").count())

    def disagreement(self, batch: Batch, own: bool = False) -> Tensor:
        """[rollout] H/ln K of its group's answers, 0 where they agree; `own`: less that of the group without it."""
        votes = self.votes(batch)
        here = votes.real(votes.refine("rollout.answer").count())  # votes for the same answer
        entered = votes.where if votes.where is not None else torch.ones_like(here, dtype=torch.bool)
        total, kinds = votes.sum(torch.ones_like(here)), votes.sum(1 / here.clamp(min=1))
        spread = votes.sum(here.clamp(min=1).log())  # Σ c ln c, each answer once for each of its votes
        whole = _evenness(total, spread, kinds)
        if not own:
            return whole
        less = (here - 1).clamp(min=1)
        rest = spread - here * here.clamp(min=1).log() + less * less.log()
        return (whole - _evenness(total - 1, rest, kinds - (here == 1).to(here.dtype))).where(entered, 0)

    def __call__(self, batch: Batch) -> Columns:
        answers, leader, votes = batch["rollout.answer"], self.leader(batch), self.votes(batch)
        groups, reads = batch.partition("rollout", "group"), parsed(batch) | (self.empty == "votes")
        ((code, _),) = batch.codes("rollout", "rollout.answer")
        agrees = (reads & (code == groups.max(code, leader))).to(batch.dtype)
        share = votes.frequency("rollout.answer").where(reads, 0).to(batch.dtype)
        apart = self.disagreement(batch, own=self.entropy_of == "own").to(batch.dtype)
        row = groups.agg.max(torch.arange(len(batch), device=batch.device), leader).tolist()
        voted = groups.agg.any(leader)
        label = tuple(answers[i] if there else "" for i, there in zip(row, voted.tolist(), strict=True))
        return {
            "rollout.reward": self.weight * (share if self.soft else agrees) - self.entropy_weight * apart,
            "rollout.reward.majority": agrees,
            "rollout.share": share,
            "group.majority": label,
            "group.disagreement": groups.agg.first(self.disagreement(batch)).to(batch.dtype),
            "group.keep.voted": voted,
        }


def _evenness(total: Tensor, spread: Tensor, kinds: Tensor) -> Tensor:
    """H/ln K of answers: their number, Σ c ln c over the counts c, and how many different ones there are."""
    several = kinds > 1.5  # a count that was added up from fractions
    entropy = total.clamp(min=1).log() - spread / total.clamp(min=1)
    return (entropy / kinds.where(several, 2).log()).where(several, 0)


class PseudoLabel(Reward):
    """A share of the tasks has labels and keeps its reward; in the others r = [answer = the group's clear favourite].

    That is the most frequent answer if it has at least two votes and more than any other; without one all get 0.
    """

    reference = "TraPO: Semi-Supervised RLVR, https://github.com/ShenzhiYang2000/TRAPO"
    labelled: float = 0.25  # share of the tasks, by their names

    needs = ("rollout.reward", "rollout.answer", "group.task")
    provides = ("rollout.reward", "group.labelled", "group.voted")

    def __post_init__(self) -> None:
        within(self, "labelled", 0, 1)

    def favourite(self, batch: Batch) -> Tensor:
        """[rollout] whether it gives the clear favourite of its group."""
        votes = batch.by("rollout", "group", where=parsed(batch))
        ((code, _),) = batch.codes("rollout", "rollout.answer")
        count = votes.refine("rollout.answer").count().where(parsed(batch), 0)
        leads = (count >= 2) & (count == votes.max(count))
        one = votes.min(code, leads) == votes.max(code, leads)  # a tie has no favourite
        return leads & one

    def __call__(self, batch: Batch) -> Columns:
        known = torch.tensor(labelled(list(batch["group.task"]), self.labelled), device=batch.device)
        favourite = self.favourite(batch)
        given = batch.spread(known, "group", "rollout")
        return {
            "rollout.reward": torch.where(given, batch["rollout.reward"], favourite.to(batch.dtype)),
            "group.labelled": known,
            "group.voted": batch.partition("rollout", "group").agg.any(favourite).to(batch.dtype),
        }


def labelled(tasks: Sequence[Any], share: float) -> list[bool]:
    """Which tasks have a label: a fixed share of all there are, by a task's name alone."""

    def draw(task: Any) -> float:
        digest = hashlib.blake2b(f"labelled/{task}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") / 2**64

    return [draw(task) < share for task in tasks]
