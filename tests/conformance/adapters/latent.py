"""Rewards from hidden states."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.policy.roles.flow import deviation, flow_velocity_score, interpolated
from tests.conformance.case import Case
from tests.conformance.helpers import in_blocks, mask
from tests.conformance.registry import adapter


@adapter("rlfr", aside=("token_reward",))
def rlfr(case: Case) -> dict[str, Any]:
    if "target_hidden" in case:
        (reward,) = methods.rlfr(pretrain=0, **case.given(timestep="timestep")).reward
        x1, x0, tau = case.tensor("target_hidden"), case.tensor("noise"), reward.timestep
        error = deviation(case.tensor("predicted_velocity"), x1, x0)
        return {"x_t": interpolated(x1, x0, tau), "deviation": error, "flow_score": flow_velocity_score(error, tau)}
    method = methods.rlfr(pretrain=0, **case.given(coefficient="flow_coef", threshold="threshold", top_k="top_k"))
    (reward,) = method.reward
    rows, action = len(case["rewards"]), mask(case)
    group = in_blocks(rows, case["group_size"])
    columns = {"rollout.reward": case.tensor("rewards"), reward.needs[0].column: case.tensor("flow_score")}
    batch = Batch.from_padded(action, group, columns)
    # The release takes the second smallest value of a row; where the row has padding, that is the smallest score.
    full = batch.spread(torch.tensor([all(row) for row in action.tolist()]), "rollout", "token")
    found, second = (reward.replace(minimum=which)(batch) for which in ("least", "second"))
    for name, x in found.items():
        x[full] = second[name][full]
    batch = batch.with_columns(found)
    return {
        "normalized": batch.to_padded(batch["token.flow.normalized"]),
        "kept": batch.to_padded(reward.kept(batch, batch["token.flow.normalized"])),
        "outcome_advantage": method.advantage.outcomes(batch),
        "advantages": batch.to_padded(method.advantage(batch)["token.advantage"]),
    }
