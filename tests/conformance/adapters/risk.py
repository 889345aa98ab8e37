"""Risk over bundles of questions."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.parts.advantage.bundles import papers, scores
from tests.conformance.case import Case
from tests.conformance.helpers import configured
from tests.conformance.registry import adapter


@adapter("riskpo")
def riskpo(case: Case) -> dict[str, Any]:
    if "levels" in case:
        (tracker,) = methods.riskpo(**case.given(lr="lr_q")).memories
        tracker = tracker.replace(levels=tuple(case["levels"]))
        return {"new_tracked_quantiles": tracker.track(case.tensor("tracked_quantiles"), case.tensor("bundle_scores"))}
    method = _method(case)
    batch = _batch(case)
    paper = papers(batch)
    score, taken = scores(batch, paper)
    bundle = dict(zip(paper.index.tolist(), case["bundle_ids"], strict=True))
    found: dict[Any, list[float]] = {name: [] for name in case["bundle_ids"]}
    for number, (value, counts) in enumerate(zip(score.tolist(), taken.tolist(), strict=True)):
        if counts:
            found[bundle[number]].append(value)
    return {
        "advantage": method.advantage(batch)["rollout.advantage"],
        "bundle_scores": found,
    }


def _method(case: Case) -> Any:
    mixing, seeking = case.hyper["use_mixing_risk_measure"], case.hyper.get("risk_seeking_upper_tail", False)
    method = configured(
        case,
        methods.riskpo(),
        {
            "quantile_down": "advantage.low",
            "quantile_up": "advantage.high",
            "use_q_track_mode": "advantage.quantiles",
            "credit_assign_mode": "advantage.credit",
            "natural_baseline_adv": "advantage.natural_baseline",
            "epsilon": "advantage.epsilon",
            "w_mix" if mixing else "upper_weight": "advantage.tail_weight",
        },
    )
    method = method.set("advantage.tail", "lower" if mixing else "upper" if seeking else "none")
    return method.set("advantage.scale", "std" if case.hyper["norm_adv_by_std_in_grpo"] else "none")


def _batch(case: Case) -> Batch:
    group = list(zip(case["bundle_ids"], case["question_ids"], strict=True))
    levels = [case.hyper["quantile_down"], case.hyper["quantile_up"]]
    tracked = [case[f"tracked_quantile_{end}"] for end in ("low", "high")]
    quantiles = [float("nan") if q is None else q for q in tracked]
    columns = {
        "group.bundle": [bundle for bundle, _ in dict.fromkeys(group)],
        "batch.risk.levels": torch.tensor([levels], dtype=torch.float64),
        "batch.risk.quantiles": torch.tensor([quantiles], dtype=torch.float64),
    }
    return Batch.from_rewards(case.tensor("rewards"), group, columns)
