"""Rewards by the likelihood of the right answer."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import pad

from podium import methods
from podium.core.batch import Batch
from podium.method import Method
from podium.parts.reward.likelihood import LIKELIHOODS, answer_signal
from podium.policy.head.passage import reduced
from tests.conformance.case import Case
from tests.conformance.helpers import differentiate
from tests.conformance.registry import adapter


@adapter("likelihood-reward")
def likelihood_reward(case: Case) -> dict[str, Any]:
    found = {kind: _one(case, kind) for kind in LIKELIHOODS}
    jepo = found["jepo"]
    return {
        "rewards": {kind: batch["rollout.reward"] for kind, (_, batch, _) in found.items()},
        "advantages": {kind: batch["rollout.advantage"] for kind, (_, batch, _) in found.items()},
        "jepo_answer_weight": jepo[2],
        "loss": {kind: _loss(method, batch) for kind, (method, batch, _) in found.items() if kind != "jepo"},
        "mc_logprob": found["logprob"][1]["group.answer.mc_logprob"],
    }


def _one(case: Case, kind: str) -> tuple[Method, Batch, torch.Tensor]:
    """The method of a kind, its batch with rewards and advantages, and how much each answer weighs in the objective of
    its group: the slope of that in the answer's score."""
    method = methods.likelihood_reward(kind, kl=0.0)
    # Every rollout ends with a mark after its reasoning, which may be empty.
    reasoning, mark = case.tensor("cot_mask"), torch.ones(len(case["cot_mask"]), 1)
    group = [row // case["group_size"] for row in range(len(reasoning))]
    columns = {"token.now.logp": case.tensor("cot_logp"), "token.reasoning": reasoning.bool()}
    columns = {name: pad(x, (0, 1)) for name, x in columns.items()}
    batch = Batch.from_padded(torch.cat([reasoning, mark], dim=1), group, columns)
    answers = [x[m.bool()] for x, m in zip(case.tensor("answer_logp"), case.tensor("answer_mask"), strict=True)]
    scores = {name: reduced(answers, LIKELIHOODS[name]) for name in LIKELIHOODS}
    now = scores[kind].requires_grad_()
    batch = batch.with_columns({answer_signal(name, "old"): x.detach() for name, x in scores.items()})
    batch = batch.with_columns({answer_signal(kind, "now"): now})
    batch = batch.with_columns({"rollout.answer.ids": tuple(tuple(range(len(answer))) for answer in answers)})
    for part in (*method.annotate, *method.reward, method.advantage, *method.metric):
        batch = batch.with_columns(part(batch))
    term = method.objective[1]
    raised, weight = term.replace(coefficient=-term.coefficient), torch.zeros_like(now)
    for number in range(batch.size("group")):
        (slope,) = torch.autograd.grad(raised(batch.take("group", torch.tensor([number]))), now)
        rows = [row for row, owner in enumerate(group) if owner == number]
        weight[rows] = slope[rows]
    return method, batch, weight


def _loss(method: Method, batch: Batch) -> float:
    return differentiate(method.objective, batch).step.loss
