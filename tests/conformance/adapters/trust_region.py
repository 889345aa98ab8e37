"""GRPO with another trust region."""

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
    credited,
    differentiate,
    padded,
)
from tests.conformance.registry import adapter


@adapter("luspo")
def luspo(case: Case) -> dict[str, Any]:
    method = configured(case, methods.luspo(), LOSS_SETTINGS)
    batch = padded(case, LOSS_COLUMNS | {"rollout.advantage": "advantage"})
    outcome = differentiate(method.objective, batch)
    log_ratio = method.objective[0].span_log_ratio(batch)
    # Each answer as one token whose ratio is the answer's: an empty one, with the ratio 1, is in the mean of GSPO's.
    columns = {"token.now.logp": log_ratio[:, None], "token.old.logp": torch.zeros_like(log_ratio[:, None])}
    columns |= {"rollout.advantage": batch["rollout.advantage"]}
    answers = Batch.from_padded(torch.ones_like(log_ratio[:, None]), list(range(len(log_ratio))), columns)
    gspo = configured(case, methods.gspo(), LOSS_SETTINGS)
    return {
        "sequence_ratio": batch.to_padded(method.objective[0].diagnostics(batch)["ratio"], fill=1.0)[:, 0],
        "loss": outcome.step.loss,
        "gspo_loss": differentiate(gspo.objective, answers).step.loss,
        "grad_logp": batch.to_padded(outcome.grad_logp),
    }


@adapter("bpo")
def bpo(case: Case) -> dict[str, Any]:
    settings = case.given(eps="epsilon", width="lambda", floor="alpha1")
    if "rewards" in case:
        by_median = "median" in case.hyper.get("threshold", "")
        method = methods.bpo(threshold="median" if by_median else "mean", scale="none", **settings)
        rewards = case.tensor("rewards")
        batch = credited(
            method,
            Batch.from_padded(torch.ones_like(rewards[:, None]), [0] * len(rewards), {"rollout.reward": rewards}),
        )
        return {
            "advantage": batch["rollout.advantage"],
            "median_advantage": batch[f"rollout.{method.objective[0].clip.side}"],
            "target_ratio": method.objective[0].clip.ratio(batch),
        }
    method = methods.get("bpo@mean", **settings).set("objective.PolicyGradient.aggregate", aggregate(case))
    batch = padded(case, LOSS_COLUMNS, given=True)
    outcome = differentiate(method.objective, batch)
    return {
        "target_ratio": batch.to_padded(method.objective[0].clip.ratio(batch)),
        "loss": outcome.step.loss,
        "grad_logp": batch.to_padded(outcome.grad_logp),
    }


@adapter("etr", aside=("pass_rate",))
def etr(case: Case) -> dict[str, Any]:
    names = {"lambda_micro": "micro", "lambda_macro": "macro", "scale_min": "smallest", "scale_max": "largest"}
    method = configured(
        case, methods.etr(**case.given(clip="clip_base")), {k: f"shape.ElasticClip.{v}" for k, v in names.items()}
    )
    (elastic,) = method.shape
    if "pass_rate" in case:
        return {"scale": elastic.scale(case.tensor("advantage"), elastic.uncertainty(case.tensor("pass_rate")))}
    columns = LOSS_COLUMNS | {"rollout.reward": "rewards"}
    batch = credited(method, padded(case, columns, group=[0] * len(case["rewards"])))
    outcome = differentiate(method.set("objective.PolicyGradient.aggregate", aggregate(case)).objective, batch)
    return {
        "advantage": batch["rollout.advantage"],
        "scale": batch["rollout.clip_scale"],
        "loss": outcome.step.loss,
        "grad_logp": batch.to_padded(outcome.grad_logp),
    }
