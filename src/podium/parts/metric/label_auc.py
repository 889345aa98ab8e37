"""Whether stored labels tell flipped pairs from clean ones."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.part import Columns, Metric

__all__ = ["LabelAUC"]


class LabelAUC(Metric):
    """`batch.label_auc`: the probability that a clean pair has a higher label than one whose answers were exchanged.

    Ties count half, and so does a batch with pairs of one kind only.
    """

    needs = ("group.label", "rollout.flipped")
    provides = ("batch.label_auc",)

    def __call__(self, batch: Batch) -> Columns:
        label = batch["group.label"]
        flipped = batch.partition("rollout", "group").agg.any(batch["rollout.flipped"].bool())
        ahead = (label[~flipped][:, None] - label[flipped][None]).reshape(-1)
        if not len(ahead):
            return {"batch.label_auc": label.new_full((1,), 0.5)}
        return {"batch.label_auc": (ahead.sign().mean() / 2 + 0.5).reshape(1)}
