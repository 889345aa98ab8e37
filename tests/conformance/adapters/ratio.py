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
    ratio = surrogate.span_log_ratio(padded(case, LOSS_COLUMNS)).exp()
    return policy_loss(case, method) | {"sequence_ratio": ratio}


@adapter("cispo")
def cispo(case: Case) -> dict[str, Any]:
    return policy_loss(case, methods.cispo())
