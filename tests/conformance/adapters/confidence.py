"""How likely the policy found its own answers."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.parts.shape import ConfidenceShift, OverconfidentErrors
from podium.parts.shape.confidence import least_likely_confidence
from tests.conformance.case import Case
from tests.conformance.helpers import configured, credited, padded
from tests.conformance.registry import adapter


@adapter("progrpo")
def progrpo(case: Case) -> dict[str, Any]:
    settings = case.given(alpha="alpha", share="low_fraction", prompt_share="low_fraction")
    method = configured(case, methods.progrpo(**settings), {"epsilon": "advantage.epsilon"})
    (shift,) = method.shape
    assert isinstance(shift, ConfidenceShift)
    (probe,) = shift.probes
    batch = _texts(case["response_logp"], case["rewards"])
    batch = batch.with_columns(probe.columns(batch, _texts([case["prompt_logp"]], [0.0])))
    return {
        "advantage_grpo": credited(method.with_(shape=()), batch)["rollout.advantage"],
        "prompt_confidence": batch["group.prompt.confidence"][0],
        "answer_confidence": least_likely_confidence(batch, shift.share),
        "advantage": credited(method, batch)["rollout.advantage"],
    }


def _texts(logps: list[list[float]], rewards: list[float]) -> Batch:
    """Texts of one group with these log-probabilities."""
    rollouts = [
        Rollout("task", [Turn([0] * len(logp), tokens={"old.logp": logp})], columns={"reward": float(reward)})
        for logp, reward in zip(logps, rewards, strict=True)
    ]
    return Batch.from_rollouts(rollouts, dtype=torch.float64)


@adapter("ace")
def ace(case: Case) -> dict[str, Any]:
    method = methods.ace(**case.given(alpha="alpha", normalized="length_normalize"))
    (errors,) = method.shape
    assert isinstance(errors, OverconfidentErrors)
    if "confidence_shift" in case:
        return {"weight": errors.factor(case.tensor("advantage_grpo"), case.tensor("confidence_shift"))}
    columns = {"rollout.reward": "rewards", "token.old.logp": "logp", "token.ref.logp": "ref_logp"}
    batch = padded(case, columns, group=[0] * len(case["rewards"]))
    method = configured(case, method, {"epsilon": "advantage.epsilon"})
    before = credited(method.with_(shape=()), batch)["rollout.advantage"]
    shift = errors.shift(batch)
    return {
        "advantage_grpo": before,
        "confidence_shift": shift,
        "weight": errors.factor(before, shift),
        "advantage": credited(method, batch)["rollout.advantage"],
    }


@adapter("unlikeliness-reward")
def unlikeliness_reward(case: Case) -> dict[str, Any]:
    method = methods.unlikeliness_reward(**case.given(beta="rank_penalty"))
    method = configured(case, method, {"epsilon": "advantage.epsilon"})
    batch = padded(case, {"rollout.reward": "rewards", "token.old.logp": "old_logp"}, group=case["group_ids"])
    return {
        "mean_logp": method.reward[0].likelihood(batch),
        "advantage": credited(method, batch)["rollout.advantage"],
    }
