"""Many turns: credit from shared states and edges."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from tests.conformance.case import Case
from tests.conformance.helpers import by_rollout, configured, credited, episodes, in_row_order
from tests.conformance.registry import adapter

COLUMNS = {"turn.state": "state_key", "turn.reward": "turn_reward"}
OUTCOME = {"rollout.reward": "outcome_reward"}
SCALES = {"mean_std_norm": "std", "mean_norm": "none"}


@adapter("gigpo")
def gigpo(case: Case) -> dict[str, Any]:
    per_row = case.hyper.get("compute_mean_std_cross_steps", True)
    method = methods.gigpo(
        scale=SCALES[case.hyper["mode"]],
        rows="step" if per_row else "rollout",
        invalid=0.0,
        **case.given(gamma="gamma", omega="step_weight"),
    )
    method = configured(case, method, {"epsilon": "advantage.epsilon"})
    batch = credited(method, episodes(case, COLUMNS | OUTCOME))
    return {
        "step_return": in_row_order(batch, method.advantage.returns(batch)),
        "episode_advantage": in_row_order(batch, method.advantage.episode(batch)),
        "advantage": in_row_order(batch, batch["step.advantage"]),
    }


@adapter("hgpo")
def hgpo(case: Case) -> dict[str, Any]:
    settings = case.given(
        gamma="gamma",
        history="history_length",
        alpha="length_weight_alpha",
        drop_zero="drop_zero",
        base_group="base_group",
    )
    method = methods.hgpo(scale=SCALES[case.hyper["mode"]], invalid=0.0, **settings)
    method = configured(case, method, {"epsilon": "advantage.epsilon"})
    batch = credited(method, episodes(case, COLUMNS | (OUTCOME if "outcome_reward" in case else {})))
    return {
        "step_return": in_row_order(batch, method.advantage.returns(batch)),
        "advantage": in_row_order(batch, batch["step.advantage"]),
    }


@adapter("salt")
def salt(case: Case) -> dict[str, Any]:
    host = "grpo" if case.hyper.get("divide_by_std", True) else "mean"
    method = configured(case, methods.salt(host=host), {"epsilon": "advantage.epsilon"})
    keys = ("state", "action", "next_state")
    walks = [[Turn((), columns=dict(zip(keys, edge, strict=True))) for edge in edges] for edges in case["edges"]]
    outcomes = case.tensor("outcome_reward").tolist()
    rollouts = [Rollout(0, walk, columns={"reward": r}) for walk, r in zip(walks, outcomes, strict=True)]
    batch = credited(method, Batch.from_rollouts(rollouts, dtype=torch.float64))
    (edges,) = method.shape
    return {
        "rollout_advantage": batch["rollout.advantage"],
        "merged": by_rollout(batch, edges.merged(batch)),
        "step_advantage": by_rollout(batch, batch["step.advantage"]),
    }
