"""Self-consistency rewards: the rollouts of a task vote on its answer, and no label is read."""

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

__all__ = ["AnswerEntropy", "Majority", "PseudoLabel", "VoteShare", "ballot", "parsed", "vote_entropy"]

EMPTY = ("dropped", "votes")  # what a rollout without an answer does


def parsed(batch: Batch) -> Tensor:
    """[rollout] Whether an answer could be read from it."""
    return torch.tensor([bool(answer) for answer in batch["rollout.answer"]], device=batch.device)


def ballot(batch: Batch, empty: str) -> Partition:
    """The rollouts that vote, by group: those with an answer, or all that count if empty = "votes"."""
    return batch.by("rollout", "group", where=None if empty == "votes" else parsed(batch))


def vote_entropy(votes: Partition, contribution: bool = False) -> Tensor:
    """[rollout] The normalised entropy H/ln K of its group's votes over K different answers; 0 if all agree.

    `contribution`: minus that of the votes without this one, so by how much its answer raises the entropy.
    """
    same = votes.real(votes.refine("rollout.answer").count())  # votes for the same answer, c
    total, kinds = votes.sum(torch.ones_like(same)), votes.sum(1 / same.clamp(min=1))
    c_log_c = votes.sum(same.clamp(min=1).log())  # Σ c ln c over the answers: ln c for each of the c votes
    entropy = _normalised_entropy(total, c_log_c, kinds)
    if not contribution:
        return entropy
    fewer = (same - 1).clamp(min=1)
    c_log_c = c_log_c - same * same.clamp(min=1).log() + fewer * fewer.log()
    without = _normalised_entropy(total - 1, c_log_c, kinds - (same == 1).to(same.dtype))
    votes_itself = votes.where if votes.where is not None else torch.ones_like(same, dtype=torch.bool)
    return (entropy - without).where(votes_itself, 0)


def _normalised_entropy(total: Tensor, c_log_c: Tensor, kinds: Tensor) -> Tensor:
    """H/ln K from the number of votes, Σ c ln c over the counts c of the answers, and the number K of answers."""
    several = kinds > 1.5  # K is a sum of fractions 1/c, so it is not exactly whole
    entropy = total.clamp(min=1).log() - c_log_c / total.clamp(min=1)
    return (entropy / kinds.where(several, 2).log()).where(several, 0)


class _Vote(Reward):
    """The rollouts of a group vote on its answer. The true label is never read.

    All rollouts that count vote, trained or not. One without an answer has no vote and gets 0, or its missing answer is
    an answer like any other (`empty="votes"`). A group without any vote is not trained (`group.keep.voted`). Also
    writes the most frequent answer (`group.majority`; ties go to the one given first), whether a rollout gives it
    (`rollout.reward.majority`), the share of votes for its answer (`rollout.share`) and `group.disagreement`, the
    normalised entropy of the votes.
    """

    weight: Number = 1.0
    empty: str = "dropped"  # what a rollout without an answer does: dropped (no vote) or votes (for having none)

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
        one_of(self, "empty", EMPTY)

    def reward(self, agrees: Tensor, share: Tensor) -> Tensor:
        """[rollout] The vote: from whether the answer is the majority's, and its share of the votes."""
        raise NotImplementedError

    def __call__(self, batch: Batch) -> Columns:
        votes, groups = ballot(batch, self.empty), batch.partition("rollout", "group")
        leader = votes.argmax(votes.refine("rollout.answer").count())  # one rollout with the most frequent answer
        valid = parsed(batch) | (self.empty == "votes")
        ((code, _),) = batch.codes("rollout", "rollout.answer")
        agrees = (valid & (code == groups.max(code, leader))).to(batch.dtype)
        share = votes.frequency("rollout.answer").where(valid, 0).to(batch.dtype)
        row = groups.agg.max(torch.arange(len(batch), device=batch.device), leader).tolist()
        voted, answers = groups.agg.any(leader), batch["rollout.answer"]
        return {
            "rollout.reward": self.weight * self.reward(agrees, share),
            "rollout.reward.majority": agrees,
            "rollout.share": share,
            "group.majority": tuple(answers[i] if any_ else "" for i, any_ in zip(row, voted.tolist(), strict=True)),
            "group.disagreement": groups.agg.first(vote_entropy(votes)).to(batch.dtype),
            "group.keep.voted": voted,
        }


class Majority(_Vote):
    """Hard majority vote: r = weight · [answer = the most frequent answer of the group], the pseudo-label of TTRL.

    All rollouts that count vote, trained or not; ties go to the answer given first. A rollout without an answer gets 0,
    or votes for having none (`empty="votes"`). A group without any vote is not trained. The true label is never read.
    """

    reference = "TTRL, https://arxiv.org/abs/2504.16084"

    def reward(self, agrees: Tensor, share: Tensor) -> Tensor:
        return agrees


class VoteShare(_Vote):
    """Soft majority vote: r = weight · p, the share p of the group's votes that go to the rollout's answer.

    All rollouts that count vote, trained or not. A rollout without an answer gets 0, or votes for having none
    (`empty="votes"`). A group without any vote is not trained. The true label is never read.
    """

    reference = "TTRV, https://github.com/Akshit21112002/TTRV"

    def reward(self, agrees: Tensor, share: Tensor) -> Tensor:
        return share


class AnswerEntropy(Reward):
    """Penalises disagreement: r ← r − weight · H/ln K, the normalised entropy of the group's K different answers.

    H is one number per group, which a group baseline cancels; of = "own" takes by how much it rises through the
    rollout's answer instead, H − H without it. weight = 0 is no penalty.
    """

    reference = "TTRV, https://github.com/Akshit21112002/TTRV"
    weight: Number = 0.75
    of: str = "group"  # group, or own: the rollout's contribution
    empty: str = "dropped"  # what a rollout without an answer does, as in the vote: dropped or votes

    needs = ("rollout.reward", "rollout.answer")
    provides = ("rollout.reward",)

    def __post_init__(self) -> None:
        one_of(self, "of", ("group", "own"))
        one_of(self, "empty", EMPTY)

    def __call__(self, batch: Batch) -> Columns:
        entropy = vote_entropy(ballot(batch, self.empty), contribution=self.of == "own").to(batch.dtype)
        return {"rollout.reward": batch["rollout.reward"] - self.weight * entropy}


class PseudoLabel(Reward):
    """Semi-supervised rewards: labelled tasks keep theirs, in the others r = [answer = the group's clear favourite].

    The favourite is the most frequent answer if it has at least two votes and more than any other; without one all
    rollouts get 0. Which tasks are labelled (`group.labelled`) depends on their names alone. labelled = 1 is supervised
    RL.
    """

    reference = "TraPO: Semi-Supervised RLVR, https://github.com/ShenzhiYang2000/TRAPO"
    labelled: float = 0.25  # the share of tasks with labels, in [0, 1]

    needs = ("rollout.reward", "rollout.answer", "group.task")
    provides = ("rollout.reward", "group.labelled", "group.voted")

    def __post_init__(self) -> None:
        within(self, "labelled", 0, 1)

    @property
    def neutral(self) -> PseudoLabel:
        return self.replace(labelled=1.0)

    def favourite(self, batch: Batch) -> Tensor:
        """[rollout] Whether it gives the clear favourite of its group."""
        votes = ballot(batch, "dropped")
        ((code, _),) = batch.codes("rollout", "rollout.answer")
        count = votes.refine("rollout.answer").count().where(parsed(batch), 0)
        leads = (count >= 2) & (count == votes.max(count))
        untied = votes.min(code, leads) == votes.max(code, leads)
        return leads & untied

    def __call__(self, batch: Batch) -> Columns:
        labels = torch.tensor(has_label(list(batch["group.task"]), self.labelled), device=batch.device)
        favourite = self.favourite(batch)
        supervised = batch.spread(labels, "group", "rollout")
        return {
            "rollout.reward": torch.where(supervised, batch["rollout.reward"], favourite.to(batch.dtype)),
            "group.labelled": labels,
            "group.voted": batch.partition("rollout", "group").agg.any(favourite).to(batch.dtype),
        }


def has_label(tasks: Sequence[Any], share: float) -> list[bool]:
    """Which tasks have a label: a fixed share of them, by a hash of the task's name."""

    def draw(task: Any) -> float:
        digest = hashlib.blake2b(f"labelled/{task}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") / 2**64

    return [draw(task) < share for task in tasks]
