"""Rollouts that only measure a pass rate are not trained."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.part import Columns, Keep
from podium.parts.select.history import UNKNOWN

__all__ = ["DropMeasuring", "MeasureOnly"]


class DropMeasuring(Keep):
    """Drops the groups that were sampled only to measure a task's pass rate before a phase (`Sweeps`)."""

    reference = "DRIVE: Data Curation Best Practices for RLVR in Competitive Code Generation"

    needs = ("group.sweep.rates", "batch.sweep.phase")
    provides = ("group.keep",)

    def __call__(self, batch: Batch) -> Columns:
        phase = int(batch["batch.sweep.phase"][0])
        return {"group.keep": batch["group.sweep.rates"][:, phase] != UNKNOWN}


class MeasureOnly(Keep):
    """Drops every group: the rollouts of a phase that only measures, for the memories. Nothing is trained in it."""

    reference = "Single-stream Policy Optimization, https://arxiv.org/abs/2509.13232"

    provides = ("group.keep",)

    def __call__(self, batch: Batch) -> Columns:
        return {"group.keep": torch.zeros(batch.size("group"), dtype=torch.bool, device=batch.device)}
