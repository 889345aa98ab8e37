"""Off-policy guidance: teachers' answers that replace failed rollouts of a group."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.columns import Purpose
from podium.core.errors import within
from podium.core.part import Columns, Keep, Need
from podium.core.schedule import Number
from podium.parts.reward.likelihood import answer_signal

__all__ = ["InjectTeachers"]

# The mean probability of the right answer's tokens after a rollout's reasoning.
ANSWER_PROBABILITY = answer_signal("avg_prob", "old")


class InjectTeachers(Keep):
    """Replaces random failures of a group by the teachers' answers that the policy comprehends best.

        comprehension = (1 − share) · mean probability of the right answer's tokens after the reasoning + share · format

    At most `most` answers are injected, into groups without a success and, with probability `even_solved`, into groups
    that have one. A teacher's answer is a guided rollout of purpose `probe`; if injected its purpose becomes `train`
    and its reward at least 1, and the rollout it replaces gets the purpose `replaced`. most = 0 is no injection.
    """

    reference = "AMPO: More Than One Teacher, https://github.com/SII-Enigma/AMPO"
    most: int = 2  # answers per group, ≥ 0
    share: float = 0.1  # weight of the format in the comprehension, in [0, 1]
    even_solved: Number = 0.0  # probability, in [0, 1]

    provides = ("rollout.purpose", "rollout.reward", "rollout.understood")

    def __post_init__(self) -> None:
        within(self, "most", 0)
        within(self, "share", 0, 1)
        within(self, "even_solved", 0, 1)

    @property
    def neutral(self) -> InjectTeachers:
        return self.replace(most=0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (
            "rollout.correct",
            "rollout.reward",
            "rollout.purpose",
            "rollout.guided",
            "rollout.format",
            ANSWER_PROBABILITY,
        )

    def understood(self, batch: Batch) -> Tensor:
        """[rollout] The comprehension of an answer's reasoning."""
        probability: Tensor = batch[ANSWER_PROBABILITY]
        well_formed: Tensor = batch["rollout.format"]
        return (1 - self.share) * probability.clamp(min=0) + self.share * well_formed

    def candidates(self, batch: Batch) -> Tensor:
        """[rollout] The teachers' answers that may be injected: into unsolved groups, or those that are drawn."""
        sampled = batch["rollout.purpose"] == Purpose.train
        solved = batch.partition("rollout", "group").agg.any(sampled & batch["rollout.correct"].bool())
        injected = ~solved | (batch.random("group", "teachers") < self.even_solved)
        from_teacher: Tensor = batch["rollout.guided"] & (batch["rollout.purpose"] == Purpose.probe)
        return from_teacher & batch.spread(injected, "group", "rollout")

    def order(self, batch: Batch) -> Tensor:
        """[rollout] The rank of a candidate in its group by comprehension, best first; −1 for the others."""
        groups = batch.partition("rollout", "group")
        return groups.rank(-self.understood(batch), self.candidates(batch))

    def __call__(self, batch: Batch) -> Columns:
        groups, rank = batch.partition("rollout", "group"), self.order(batch)
        failed = (batch["rollout.purpose"] == Purpose.train) & ~batch["rollout.correct"].bool()
        taken = (rank >= 0) & (rank < self.most) & (rank < groups.count(failed))
        drawn = groups.rank(batch.random("rollout", "inject"), failed)
        replaced = failed & (drawn < groups.count(taken))
        purpose = batch["rollout.purpose"]
        purpose = purpose.masked_fill(taken, int(Purpose.train)).masked_fill(replaced, int(Purpose.replaced))
        reward = batch["rollout.reward"]
        return {
            "rollout.purpose": purpose,
            "rollout.reward": torch.where(taken, reward.clamp(min=1), reward),
            "rollout.understood": self.understood(batch),
        }
