"""GRPO with another ratio or another clip."""

from __future__ import annotations

from typing import Any

from podium import methods
from tests.conformance.case import Case
from tests.conformance.helpers import LOSS_COLUMNS, padded, policy_loss
from tests.conformance.registry import adapter


@adapter("gspo")
def gspo(case: Case) -> dict[str, Any]:
    method = methods.gspo()
    (surrogate,) = method.objective
    batch = padded(case, LOSS_COLUMNS)
    ratio = batch.to_padded(surrogate.diagnostics(batch)["ratio"], fill=1.0)  # of an empty answer: 1
    return policy_loss(case, method) | {"sequence_ratio": ratio[:, 0]}


@adapter("cispo")
def cispo(case: Case) -> dict[str, Any]:
    return policy_loss(case, methods.cispo())
