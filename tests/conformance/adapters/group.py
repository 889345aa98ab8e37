"""The group-relative family."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from tests.conformance.case import Case
from tests.conformance.helpers import (
    LOSS_COLUMNS,
    LOSS_SETTINGS,
    aggregate,
    configured,
    differentiate,
    outcome_advantage,
    padded,
    policy_loss,
)
from tests.conformance.registry import adapter

ESTIMATORS = {"kl": "k1", "k1": "k1", "abs": "abs", "mse": "k2", "k2": "k2", "low_var_kl": "k3", "k3": "k3"}


@adapter("grpo")
def grpo(case: Case) -> dict[str, Any]:
    if "rewards" in case:
        return outcome_advantage(case, configured(case, methods.grpo(), {"epsilon": "advantage.epsilon"}))
    method = configured(case, methods.get("grpo@verl", dual=None), LOSS_SETTINGS)
    estimator = ESTIMATORS[case.hyper.get("kl_estimator", "k3")]
    kl = method.objective[1].replace(estimator=estimator, aggregate=aggregate(case))
    if estimator != "k3":
        kl = kl.replace(limit=None)  # verl limits k3 alone
    clip = method.objective[0].replace(aggregate=aggregate(case))
    batch = padded(case, LOSS_COLUMNS)
    total = differentiate([clip, kl.replace(coefficient=case.hyper["kl_coef"])], batch)
    return {
        "policy_loss": total.step.terms["PolicyGradient"],
        "kl_loss": differentiate([kl.replace(coefficient=1.0)], batch).step.loss,
        "total_loss": total.step.loss,
        "grad_logp": batch.to_padded(total.grad_logp),
    } | dict(total.step.diagnostics)


@adapter("dr-grpo")
def dr_grpo(case: Case) -> dict[str, Any]:
    if "rewards" in case:
        by_std = case.hyper.get("norm_adv_by_std_in_grpo", False)
        return outcome_advantage(case, methods.dr_grpo().set("advantage.scale", "std" if by_std else "none"))
    length = case.given(max_length="loss_norm_length")
    mean = policy_loss(case, methods.dr_grpo(over_rollouts="mean", **length))
    total = policy_loss(case, methods.dr_grpo(over_rollouts="sum", **length))
    return {
        "loss_verl_sum_over_sequences": total["loss"],
        "loss_mean_over_sequences": mean["loss"],
        "grad_logp_of_mean": mean["grad_logp"],
    }


@adapter("dapo")
def dapo(case: Case) -> dict[str, Any]:
    if "logp" in case:
        return policy_loss(case, methods.get("dapo@verl"))
    if "lengths" in case:
        settings = case.given(max_length="max_length", buffer="buffer_length", penalty="penalty_factor")
        length = case.tensor("lengths")
        batch = Batch.from_rewards(torch.zeros_like(length), range(len(length)), {"rollout.length": length})
        *_, overlong = methods.dapo(**settings).reward
        return {"overlong_penalty": overlong(batch)["rollout.reward.overlong"]}
    rewards, group = zip(*((r, g) for g, group in enumerate(case["group_rewards"]) for r in group), strict=True)
    (mixed,) = methods.dapo(varies="rollout.reward").keep  # the vectors give the metric as a reward
    return {"keep": mixed(Batch.from_rewards(torch.tensor(rewards, dtype=torch.float64), group))["group.keep"]}


@adapter("rloo")
def rloo(case: Case) -> dict[str, Any]:
    return outcome_advantage(case, methods.rloo(kl=0.0))


@adapter("opo")
def opo(case: Case) -> dict[str, Any]:
    return outcome_advantage(case, methods.opo())


@adapter("gpg")
def gpg(case: Case) -> dict[str, Any]:
    if "rewards" in case:
        return outcome_advantage(case, methods.get("gpg@verl"))
    return policy_loss(case, methods.gpg())
