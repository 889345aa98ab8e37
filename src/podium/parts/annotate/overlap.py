"""How what a rollout has looked at agrees with what its answer follows from."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.part import Annotate, Columns

__all__ = ["EvidenceOverlap"]


def _share(part: Collection[Any], whole: Collection[Any]) -> float:
    return len(part) / len(whole) if whole else 0.0


class EvidenceOverlap(Annotate):
    """Compares the ids that were picked, F, with those of the evidence, F*, as sets: `rollout.overlap` is the
    intersection over union |F ∩ F*| / |F ∪ F*|, `rollout.covered` the share |F ∩ F*| / |F*|, `rollout.looked` whether
    anything was picked.

    An id counts once, however often it was picked. Shares of nothing are 0.
    """

    reference = "EARL: Select Less, Reason More"

    needs = ("rollout.picked", "rollout.evidence")
    provides = ("rollout.overlap", "rollout.covered", "rollout.looked")

    def __call__(self, batch: Batch) -> Columns:
        rows = zip(batch["rollout.picked"], batch["rollout.evidence"], strict=True)
        sets = [(frozenset(picked), frozenset(evidence)) for picked, evidence in rows]
        found = {
            "rollout.overlap": [_share(picked & evidence, picked | evidence) for picked, evidence in sets],
            "rollout.covered": [_share(picked & evidence, evidence) for picked, evidence in sets],
            "rollout.looked": [float(bool(picked)) for picked, _ in sets],
        }
        return {name: torch.tensor(x, dtype=batch.dtype, device=batch.device) for name, x in found.items()}
