"""Shorter answers."""

from __future__ import annotations

from typing import Any

from podium import methods
from podium.policy.model.merge import merge_largest
from tests.conformance.case import Case
from tests.conformance.helpers import configured, credited, padded
from tests.conformance.registry import adapter


@adapter("dler")
def dler(case: Case) -> dict[str, Any]:
    if "base" in case:
        settings = case.given(keep="keep_fraction", scale="scale")
        return {"merged": merge_largest(case.tensor("base"), case.tensor("tuned"), **settings)}
    if "pass_rate" in case:
        limits = (case.hyper["limit_hard"], case.hyper["limit_easy"])
        (limit,) = methods.dler(limits=limits, thresholds=(case.hyper["threshold"],)).reward
        return {"max_length": limit.limit(case.tensor("pass_rate"))}
    method = configured(case, methods.dler().with_(reward=()), {"whiten_epsilon": "shape.Whiten.epsilon"})
    batch = credited(method, padded(case, {"rollout.reward": "rewards_after_truncation"}, group=case["group_ids"]))
    return {"advantage_per_token": batch.to_padded(batch["token.advantage"])}
