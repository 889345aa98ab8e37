"""Methods with a critic."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from tests.conformance.case import Case
from tests.conformance.helpers import configured, credited, marked_until, only, padded, policy_loss
from tests.conformance.registry import adapter


@adapter("ppo")
def ppo(case: Case) -> dict[str, Any]:
    if "logp" in case:
        return policy_loss(case, methods.ppo())
    paths = {"gamma": "advantage.gamma", "lambda": "advantage.lam", "whiten_epsilon": "shape.Whiten.epsilon"}
    method = configured(case, methods.ppo(), paths).with_(reward=())  # the case gives rewards of tokens
    batch = padded(case, {"token.reward": "token_level_rewards", "token.old.value": "values"}, given=True)
    raw, whitened = credited(method.with_(shape=()), batch), credited(method, batch)
    return {
        "advantage_raw": batch.to_padded(raw["token.advantage"]),
        "advantage_whitened": batch.to_padded(whitened["token.advantage"]),
        "returns": batch.to_padded(raw["token.return"]),
    }


@adapter("tppo")
def tppo(case: Case) -> dict[str, Any]:
    method = methods.tppo(**case.given(gamma="gamma", lam="lam_policy"))
    method = method.set("advantage.lam_return", case.hyper["lam_value"])
    lengths, width = case["length"], len(case["values"][0])
    new = [[place >= start for place in range(width)] for start in case["new_token_start"]]
    columns = {
        "token.old.value": case.tensor("values"),
        "token.new": torch.tensor(new),
        "rollout.reward": case.tensor("final_reward"),
        "rollout.finished": torch.tensor(case["finished"]),
    }
    mask = torch.tensor(marked_until(lengths, width), dtype=torch.float64)
    batch = credited(method, Batch.from_padded(mask, list(range(len(lengths))), columns))
    policy, value = (term.members(batch) for term in method.objective)
    return {
        "delta": batch.to_padded(method.advantage.deltas(batch)),
        "advantages": batch.to_padded(batch["token.advantage"]),
        "policy_mask": batch.to_padded(policy.double()),
        "value_mask": batch.to_padded(value.double()),
        "value_targets": batch.to_padded(only(batch["token.return"], value)),
    }
