"""Rewards as labels."""

from __future__ import annotations

from typing import Any

from podium import methods
from tests.conformance.case import Case
from tests.conformance.helpers import LOSS_COLUMNS, differentiate, padded
from tests.conformance.registry import adapter


@adapter("real")
def real(case: Case) -> dict[str, Any]:
    group = [row // case["group_size"] for row in range(len(case["rewards"]))]
    batch = padded(case, LOSS_COLUMNS | {"rollout.reward": "rewards"}, group=group)
    method, bce = (methods.real(variant=v, **case.given(tau="tau")) for v in ("softmax", "bce"))
    outcome = differentiate(method.objective, batch)
    return {
        "score": method.objective[0].scores(batch),
        "loss": outcome.step.loss,
        # A score is a mean of log-ratios, so its slope is the sum of its tokens' slopes.
        "score_gradient": batch.reduce(outcome.grad_logp, "token", "rollout", "sum"),
        "bce_loss": differentiate(bce.objective, batch).step.loss,
    }
