"""Rewards by the likelihood of the right answer."""

from __future__ import annotations

from typing import Any

import torch

from podium import Batch, Method, methods
from podium.policy.passage import reduced
from podium.reward.likelihood import KINDS, answer_signal
from tests.conformance.case import Case
from tests.conformance.registry import adapter


@adapter("likelihood-reward")
def likelihood_reward(case: Case) -> dict[str, Any]:
    found = {kind: _one(case, kind) for kind in KINDS}
    jepo = found["jepo"]
    return {
        "rewards": {kind: batch["rollout.reward"] for kind, (_, batch, _) in found.items()},
        "advantages": {kind: batch["rollout.advantage"] for kind, (_, batch, _) in found.items()},
        "jepo_answer_weight": -jepo[2] * jepo[1].size("group"),
        "loss": {kind: _loss(method, batch) for kind, (method, batch, _) in found.items() if kind != "jepo"},
        "mc_logprob": found["logprob"][1]["group.answer.mc_logprob"],
    }


def _one(case: Case, kind: str) -> tuple[Method, Batch, torch.Tensor]:
    """The method of a kind, its batch with rewards and advantages, and the slope of the loss in the answers' score."""
    method = methods.likelihood_reward(kind, kl=0.0)
    mask = case.tensor("cot_mask")
    group = [row // case["group_size"] for row in range(len(mask))]
    batch = Batch.from_padded(mask, group, {"token.now.logp": case.tensor("cot_logp")})
    answers = [x[m.bool()] for x, m in zip(case.tensor("answer_logp"), case.tensor("answer_mask"), strict=True)]
    scores = {name: reduced(answers, KINDS[name]) for name in KINDS}
    now = scores[kind].requires_grad_()
    columns = {answer_signal(name, "old"): x.detach() for name, x in scores.items()}
    batch = batch.with_columns(columns | {answer_signal(kind, "now"): now})
    reasoning = torch.ones(batch.size("token"), dtype=torch.bool)
    ids = tuple(tuple(range(len(answer))) for answer in answers)
    batch = batch.with_columns({"token.reasoning": reasoning, "rollout.answer.ids": ids})
    for part in (*method.reward, method.advantage, *method.evaluate):
        batch = batch.with_columns(part(batch))
    (slope,) = torch.autograd.grad(method.objective[1](batch), now)
    return method, batch, slope


def _loss(method: Method, batch: Batch) -> float:
    return sum(float(term(batch).detach()) for term in method.objective)
