"""Methods with a critic."""

from __future__ import annotations

from typing import Any

from podium import methods
from tests.conformance.case import Case
from tests.conformance.helpers import configured, credited, padded, policy_loss
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
