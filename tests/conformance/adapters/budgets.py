"""How many rollouts a task gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout
from podium.parts.shape import Novelty
from podium.sessions.value_model import soft_cross_entropy, success_pairs, value_model_loss
from podium.strategies import Rounds, SecondWave
from podium.strategies.budgets.allocation import exploration_bonus, half_width
from podium.strategies.requests import Play, Request
from tests.conformance.case import Case
from tests.conformance.helpers import configured, credited, padded
from tests.conformance.plans import answered, asking
from tests.conformance.registry import adapter


@adapter("dars")
def dars(case: Case) -> dict[str, Any]:
    if case["part"] == "advantage":
        method = configured(case, methods.dars(**case.given(std="use_std")), {"eps": "advantage.epsilon"})
        batch = credited(method, Batch.from_rewards(case.tensor("reward"), case["group"]))
        return {"advantages": batch["rollout.advantage"]}
    settings = case.given(n="n_first", most="n_max", std="std_in_advantage")
    found = {}
    for name, schedule in (("equal_treatment", "equal"), ("hardness_weighted", "hardness")):
        strategy = methods.dars(schedule=schedule, **settings).rollout
        assert isinstance(strategy, SecondWave)
        found[f"extra_{name}"] = strategy.extra(case.tensor("accuracy"))
    return found


@adapter("xrpo")
def xrpo(case: Case) -> dict[str, Any]:
    if "group_rewards" in case:
        strategy = methods.xrpo(**case.given(bonus="lambda")).rollout
        assert isinstance(strategy, Rounds)
        strategy = strategy.replace(**case.given(alpha="alpha"))
        std, n = strategy.seen(case["group_rewards"])
        spent = float(len([reward for rewards in case["group_rewards"] for reward in rewards]))
        return {
            "std": std,
            "half_width": half_width(std, n, strategy.alpha),
            "uncertainty_reduction": strategy.reduction(std, n),
            "exploration_bonus": exploration_bonus(n, spent, float(strategy.bonus)),
            "priority": strategy.priority(std, n, spent),
        }
    method = methods.xrpo(**case.given(novelty="lambda_novelty", cap="kappa_clip"))
    method = configured(case, method, {"epsilon": "advantage.epsilon"})
    batch = padded(case, {"rollout.reward": "rewards", "token.old.logp": "logp"}, group=[0] * len(case["rewards"]))
    (shape,) = method.shape
    assert isinstance(shape, Novelty)
    return {
        "mean_logp": shape.mean_logp(batch),
        "eta": shape.rarity(batch),
        "advantage_grpo": credited(method.with_(shape=()), batch)["rollout.advantage"],
        "advantage": credited(method, batch)["rollout.advantage"],
    }


@adapter("v0")
def v0(case: Case) -> dict[str, Any]:
    if "logits" in case:
        logits, labels = case.tensor("logits").requires_grad_(), case.tensor("labels")
        methods.v0(value="podium/tiny")  # the model that this loss fits
        loss = value_model_loss(logits, labels, **case.given(alpha="alpha"))
        (slope,) = torch.autograd.grad(loss, logits)
        return {
            "pairwise_loss": success_pairs(logits),
            "soft_ce": soft_cross_entropy(logits, labels),
            "loss": loss,
            "grad_logits": slope,
        }
    names = {"useful_failures": "failures", "mixed_outcome_probability": "mixed"}
    utility = names[case.hyper.get("utility", "useful_failures")]
    rates = case["success_probability"]
    limits = case.given(least="min_per_prompt", most="max_per_prompt")
    method = methods.v0(n=case["total_budget"] // len(rates), utility=utility, **limits)
    asked: list[int] = []

    def answers(request: Request) -> Sequence[Rollout]:
        assert isinstance(request, Play)
        asked.append(request.n)
        return []

    (plan,) = method.rollout.plans([asking({method.rollout.rate: rate}) for rate in rates])  # type: ignore[union-attr]
    answered(plan, answers)
    return {"budget": asked}
