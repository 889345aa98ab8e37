"""Policies that choose: edges of graphs, agents of teams."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.bernoulli import bernoulli_logp
from podium.core.build import Rollout, Turn
from tests.conformance.case import Case
from tests.conformance.helpers import credited, differentiate
from tests.conformance.registry import adapter


@adapter("graph-grpo")
def graph_grpo(case: Case) -> dict[str, Any]:
    graphs, epsilon = case["edge_in_graph"], case.hyper["epsilon"]
    rollouts = [
        Rollout(0, [Turn(edges)], columns={"reward": float(reward)})
        for edges, reward in zip(graphs, case["rewards"], strict=True)
    ]
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    logits = {name: torch.cat([case.tensor(name)] * len(graphs)) for name in ("edge_logits", "initial_edge_logits")}
    batch = batch.with_columns(
        {
            "token.now.log_odds": logits["edge_logits"],
            "token.ref.log_odds": logits["initial_edge_logits"],
            "token.now.logp": bernoulli_logp(logits["edge_logits"], batch["token.id"]),
        }
    )
    method = methods.graph_grpo(kl=case.hyper["kl_weight"], epsilon=epsilon)
    by_edge = credited(method, batch)
    gradient, _ = method.objective
    _, divergence = methods.graph_grpo(kl=1.0).objective
    edges = len(graphs[0])
    return {
        "edge_success_rate": by_edge["token.success"][:edges],
        "edge_advantages": by_edge["token.advantage"][:edges],
        "graph_advantages": credited(methods.graph_grpo(credit="graph", epsilon=epsilon), batch)["rollout.advantage"],
        "policy_loss": gradient(by_edge),
        "kl": divergence(by_edge),
        "loss": differentiate(method.objective, by_edge).step.loss,
    }
