"""Rewritten groups: which they are, what their rollouts are credited with, and which tool is inserted."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.memories import ToolGains
from podium.strategies import Counterfactual
from tests.conformance.case import Case
from tests.conformance.registry import adapter


@adapter("earl")
def earl(case: Case) -> dict[str, Any]:
    method = methods.earl(**case.given(epsilon="epsilon"), scale="std" if case.hyper.get("divide_by_std") else "none")
    if "tools" in case:
        (memory,) = method.memories
        assert isinstance(memory, ToolGains)
        return {
            "tool_probabilities": memory.probabilities([case["average_counterfactual_gain"][t] for t in case["tools"]])
        }
    strategy, part = method.rollout, method.advantage
    assert isinstance(strategy, Counterfactual)
    assert part is not None
    rows = list(zip(case["group"], case["rewards"], case["counterfactual_rewards"], strict=True))
    failed = {g: strategy.fails([before for of, before, _ in rows if of == g]) for g in case["group"]}
    rewards = [after if failed[g] else before for g, before, after in rows]
    columns = {
        "rollout.rewritten": torch.tensor([failed[g] for g in case["group"]]),
        "rollout.reward_before": case.tensor("rewards"),
    }
    batch = Batch.from_rewards(torch.tensor(rewards, dtype=torch.float64), case["group"], columns)
    return {
        "rewrite_mask": columns["rollout.rewritten"],
        "rollout_advantages": part(batch)["rollout.advantage"],
    }
