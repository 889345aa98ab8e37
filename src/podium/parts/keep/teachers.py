"""Which teachers' answers take the place of failures."""

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

READ = answer_signal("avg_prob", "old")


class InjectTeachers(Keep):
    """In a group without a success the `most` best understood teachers' answers replace failures drawn at random; in
    one with successes and failures too, with the probability `even_solved`.

    A teacher's answer is a guided rollout of purpose `probe`. How well it is understood: (1 − share) · the mean
    probability of the right answer's tokens after its reasoning + share · [right format]. The reward of a teacher's
    answer is at least 1.
    """

    reference = "AMPO: More Than One Teacher, https://github.com/SII-Enigma/AMPO"
    most: int = 2
    share: float = 0.1  # of the format
    even_solved: Number = 0.0  # probability

    provides = ("rollout.purpose", "rollout.reward", "rollout.understood")

    def __post_init__(self) -> None:
        within(self, "most", 0)
        within(self, "share", 0, 1)
        within(self, "even_solved", 0, 1)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.correct", "rollout.reward", "rollout.purpose", "rollout.guided", "rollout.format", READ)

    def understood(self, batch: Batch) -> Tensor:
        """[rollout] how well an answer's reasoning is understood."""
        read: Tensor = batch[READ]
        well_formed: Tensor = batch["rollout.format"]
        return (1 - self.share) * read.clamp(min=0) + self.share * well_formed

    def candidates(self, batch: Batch) -> Tensor:
        """[rollout] the teachers' answers to tasks that the group itself has not solved, or that are drawn."""
        own = batch["rollout.purpose"] == Purpose.train
        solved = batch.partition("rollout", "group").agg.any(own & batch["rollout.correct"].bool())
        asked = ~solved | (batch.random("group", "teachers") < self.even_solved)
        offered: Tensor = batch["rollout.guided"] & (batch["rollout.purpose"] == Purpose.probe)
        return offered & batch.spread(asked, "group", "rollout")

    def order(self, batch: Batch) -> Tensor:
        """[rollout] the place of a candidate among those of its group, the best understood first; −1 of the others."""
        everyone = batch.partition("rollout", "group")
        return everyone.rank(-self.understood(batch), self.candidates(batch))

    def __call__(self, batch: Batch) -> Columns:
        groups, place = batch.partition("rollout", "group"), self.order(batch)
        failed = (batch["rollout.purpose"] == Purpose.train) & ~batch["rollout.correct"].bool()
        taken = (place >= 0) & (place < self.most) & (place < groups.count(failed))
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
