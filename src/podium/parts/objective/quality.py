"""Training of the quality head, which predicts early whether a rollout will be right."""

from __future__ import annotations

from dataclasses import field

from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from podium.core.batch import Batch
from podium.core.signal import Signal
from podium.core.term import Term

__all__ = ["QualityLoss"]

LOGIT = Signal("quality", of="now", grad=True)


class QualityLoss(Term):
    """Binary cross-entropy of the quality head's prediction and whether the rollout is right.

    The head is read at the tokens of `where`: those at which a rollout may be stopped early.
    """

    reference = "ARRoL: Prune as You Generate"
    where: str | None = field(default="token.detect", kw_only=True)
    trains: str = field(default="quality", kw_only=True)

    needs = ("rollout.correct", LOGIT)

    def loss(self, batch: Batch) -> Tensor:
        right = batch.spread(batch["rollout.correct"].to(batch.dtype), "rollout", "token")
        return binary_cross_entropy_with_logits(batch[LOGIT], right, reduction="none")

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        right = batch.spread(batch["rollout.correct"].bool(), "rollout", "token")
        return {"quality.accuracy": (batch[LOGIT] > 0) == right, "quality.score": batch[LOGIT].sigmoid()}
