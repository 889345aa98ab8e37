"""REINFORCE and its variants without groups."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from tests.conformance.case import Case
from tests.conformance.helpers import configured, credited, mask, only, padded, policy_loss
from tests.conformance.registry import adapter


@adapter("reinforce")
def reinforce(case: Case) -> dict[str, Any]:
    return policy_loss(case, methods.reinforce())


@adapter("reinforce-plus-plus")
def reinforce_plus_plus(case: Case) -> dict[str, Any]:
    baseline = "rewards" in case
    method = methods.reinforce_plus_plus(baseline=baseline, kl=0.0).with_(reward=())
    paths = {"epsilon": "shape.Whiten.epsilon"} | ({} if baseline else {"gamma": "advantage.gamma"})
    columns = {"rollout.reward": "rewards", "token.reward": "token_level_rewards"}
    batch = padded(case, columns, group=case["group_ids"] if baseline else None, given=True)
    batch = credited(configured(case, method, paths), batch)
    advantage = batch["token.advantage"]
    found = {
        "advantage_per_rollout": batch.to_padded(advantage)[:, 0],
        "advantage_per_token": batch.to_padded(only(advantage, batch.action)),
    }
    return found if baseline else found | {"returns": batch.to_padded(batch["token.return"])}


@adapter("remax")
def remax(case: Case) -> dict[str, Any]:
    sampled, rows = mask(case), len(mask(case))
    batch = Batch.from_padded(
        torch.cat([sampled, torch.zeros_like(sampled)]),  # of the greedy rollouts the rewards are all we have
        [*range(rows), *range(rows)],
        {
            "rollout.reward": torch.cat([case.tensor("rewards"), case.tensor("greedy_rewards")]),
            "rollout.purpose": ["train"] * rows + ["baseline"] * rows,
        },
        given=True,
    )
    batch = credited(methods.remax(kl=0.0, gamma=1.0, limit=None), batch)
    return {
        "returns": batch.to_padded(batch["token.return"])[:rows],
        "advantage_per_token": batch.to_padded(only(batch["token.advantage"], batch.action))[:rows],
    }
