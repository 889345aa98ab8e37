"""Rewards as labels."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from tests.conformance.case import Case
from tests.conformance.helpers import LOSS_COLUMNS, credited, differentiate, padded
from tests.conformance.registry import adapter

COLUMNS = LOSS_COLUMNS | {"rollout.reward": "rewards"}


def grouped(case: Case) -> Batch:
    """Rollouts of consecutive groups of one size."""
    return padded(case, COLUMNS, group=[row // case["group_size"] for row in range(len(case["rewards"]))])


@adapter("real", aside=("score_gradient",))
def real(case: Case) -> dict[str, Any]:
    batch = grouped(case)
    method, bce = (methods.real(variant=v, **case.given(tau="tau")) for v in ("softmax", "bce"))
    outcome = differentiate(method.objective, batch)
    return {
        "score": method.objective[0].scores(batch),
        "loss": outcome.step.loss,
        "grad_logp": batch.to_padded(outcome.grad_logp),
        "bce_loss": differentiate(bce.objective, batch).step.loss,
    }


@adapter("pacs")
def pacs(case: Case) -> dict[str, Any]:
    modes = {"question": "balanced", "only_positive": "right", "only_negative": "wrong"}
    method = methods.pacs(
        weights=modes[case.hyper["weight_mode"]] if case.hyper["use_weight"] else "equal",
        score={"1": "log_ratio", "2": "logp"}[str(case.hyper["reward_method"])],
        **case.given(beta="beta", estimator="estimator"),
    )
    (term,), batch = method.objective, grouped(case)
    outcome = differentiate(method.objective, batch)
    return {
        "implicit_reward": term.replace(centre="none", scale="none").logits(batch),
        "score": term.logits(batch),
        "weight": term.class_weights(batch),
        "loss": outcome.step.loss,
        "logp_gradient": batch.to_padded(outcome.grad_logp)[:, 0],  # all tokens of an answer have the same
    }


@adapter("drpo")
def drpo(case: Case) -> dict[str, Any]:
    estimators = {"kl": "k1", "low_var_kl": "k3"}
    settings = case.given(length_temperature="lambda", tau="tau", delta="delta", beta="beta", max_length="max_length")
    method = methods.drpo(estimator=estimators[case.hyper["kl"]], **settings)
    batch = padded(case, COLUMNS, group=case["group_ids"])
    outcome = differentiate(method.objective, batch)
    return {
        "loss": outcome.step.loss,
        "grad_logp": batch.to_padded(outcome.grad_logp),
        "approx_kl": outcome.step.diagnostics["kl.old"],
        "constraint_active": outcome.step.diagnostics["constraint"] == 1,
    }


@adapter("reg-grpo")
def reg_grpo(case: Case) -> dict[str, Any]:
    method = methods.reg_grpo(kl=0.0, **case.given(epsilon="epsilon"))
    one = [0] * len(case["rewards"])
    if "log_ratio" in case:  # a token each, whose log-ratio is that of the answer
        rho = case.tensor("log_ratio")[:, None]
        columns = {
            "token.now.logp": rho,
            "token.old.logp": torch.zeros_like(rho),
            "rollout.reward": case.tensor("rewards"),
        }
        batch = Batch.from_padded(torch.ones_like(rho), one, columns)
    else:
        batch = padded(case, COLUMNS, group=one)
    batch = credited(method, batch)
    (term,), outcome = method.objective, differentiate(method.objective, batch)
    return {
        "target_advantage": batch["rollout.advantage"],
        "log_ratio": term.scores(batch),
        "predicted_advantage": term.logits(batch),
        "loss": outcome.step.loss,
        "grad_logp": batch.to_padded(outcome.grad_logp),
    }
