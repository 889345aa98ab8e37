"""Intrinsic rewards from what an annotator makes of the captions of turns."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Columns, Need, Reward
from podium.core.partition import Partition
from podium.core.schedule import Number
from podium.parts.reward.running import merged

__all__ = ["CAPTION_FORMS", "Intrinsic"]

REFERENCE = "ONI, https://github.com/facebookresearch/oni"
CAPTION_FORMS = ("retrieval", "classification", "ranking")  # what the score of a caption is


class Intrinsic(Reward):
    """Adds the novelty-weighted reward of captions to that of the world, at every turn:

        R_t = extrinsic · clip(r_t, ± limit) + intrinsic · r_int(m_t) / c_t^exponent

    c_t counts how often the caption m_t has occurred in the rollout so far, this time included: a helpful caption that
    is repeated for ever earns at most ζ(exponent) times what it earns once, 1.202 for 3. r_int depends on the form of
    `turn.caption.score`:

    - retrieval: the score is a label from a table, and is r_int itself;
    - classification: it is a probability, and r_int = 1 above the threshold, else 0;
    - ranking: z = (s − mean) / std by running moments, this batch included, and r_int = z above the threshold, else 0.

    intrinsic = 0 leaves the scaled reward of the world. `turn.reward` becomes R; `rollout.reward` stays the world's.
    """

    reference = REFERENCE
    form: str = "retrieval"  # retrieval, classification or ranking
    extrinsic: Number = 1.0  # weight of the world's reward, ≥ 0; 0: the agent knows only the captions
    intrinsic: Number = 0.4  # weight of r_int, ≥ 0
    exponent: Number = 3.0  # of the count, ≥ 0; 0: repetitions earn as much as the first time
    threshold: Number = 0.5  # of classification, in probability, and of ranking, in standard deviations
    limit: Number = 10.0  # the world's rewards are clipped to ± this, > 0

    provides = ("turn.reward", "turn.reward.intrinsic", "turn.caption.count", "rollout.reward.intrinsic")

    def __post_init__(self) -> None:
        one_of(self, "form", CAPTION_FORMS)
        for name in ("extrinsic", "intrinsic", "exponent"):
            within(self, name, 0)
        within(self, "limit", 0, open_low=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        moments = ("batch.caption.statistics",) if self.form == "ranking" else ()
        return ("turn.reward", "turn.caption", "turn.caption.score", *moments)

    def counts(self, batch: Batch) -> Tensor:
        """[turn] how often its caption has occurred in the rollout, this time included."""
        same = batch.by("turn", "rollout", "turn.caption")
        everyone = Partition(same.index, same.cells)  # also turns that enter no statistic
        element, _, place = everyone.sort(batch.position("turn", "rollout"))
        return torch.zeros_like(place).index_copy(0, element, place + 1)

    def values(self, batch: Batch) -> Tensor:
        """[turn] r_int."""
        score: Tensor = batch["turn.caption.score"]
        if self.form == "retrieval":
            return score
        if self.form == "classification":
            return (score > self.threshold).to(score.dtype)
        _, mean, variance = merged(batch, batch["batch.caption.statistics"], "turn.caption.score").unbind(-1)
        z = ((score.double() - mean) / variance.sqrt()).to(score.dtype)
        return z.where(z > self.threshold, 0)

    def __call__(self, batch: Batch) -> Columns:
        count = self.counts(batch)
        bonus = self.intrinsic * self.values(batch) / count.to(batch.dtype) ** self.exponent
        limit = float(self.limit)
        return {
            "turn.reward": self.extrinsic * batch["turn.reward"].clamp(-limit, limit) + bonus,
            "turn.reward.intrinsic": bonus,
            "turn.caption.count": count,
            "rollout.reward.intrinsic": batch.reduce(bonus, "turn", "rollout", "sum"),
        }
