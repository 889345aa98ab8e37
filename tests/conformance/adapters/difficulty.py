"""Advantages that know how hard a task is."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.training.top_up import take_oldest
from tests.conformance.case import Case
from tests.conformance.helpers import configured, credited
from tests.conformance.registry import adapter


@adapter("a-grae")
def a_grae(case: Case) -> dict[str, Any]:
    scale = "std" if case.hyper.get("divide_by_std", True) else "none"
    settings = {"epsilon": "advantage.epsilon", "alpha_suppress": "shape.ProgressFocus.alpha"}
    method = configured(case, methods.get("a-grae@release", scale=scale), settings)
    method = configured(case, method, {"epsilon": "shape.ProgressFocus.epsilon"})
    batch = Batch.from_rewards(case.tensor("rewards"), case["group_ids"])
    after = credited(method, batch)
    return {
        "advantage": after["rollout.advantage"],
        "advantage_before_agrae": credited(method.with_(shape=()), batch)["rollout.advantage"],
        "batch_mean_of_group_means": after["batch.progress"][0],
    }


@adapter("adora")
def adora(case: Case) -> dict[str, Any]:
    settings = case.given(
        variant="variant", damp="lambda", correct_above="correct_threshold", max_length="max_length_threshold"
    )
    method = configured(case, methods.adora(**settings), {"epsilon": "advantage.epsilon"})
    reward, length = case.tensor("rewards"), case.tensor("lengths")
    group = case["group_ids"] if "group_ids" in case else torch.arange(len(reward)).repeat_interleave(reward.shape[1])
    batch = Batch.from_rewards(reward.reshape(-1), group, {"rollout.length": length.reshape(-1)})
    gate = batch.spread(method.shape[0].gate(batch), "group", "rollout")
    return {"advantage": credited(method, batch)["rollout.advantage"], "weight": gate.reshape(reward.shape)}


@adapter("confucius3-math", aside=("mean",))
def confucius3_math(case: Case) -> dict[str, Any]:
    if "mean_entropy" in case:
        return _targeted_entropy(case)
    if "kept_prompts_per_generation" in case:
        return {"steps": _recovered(case)}
    method = methods.confucius3_math(stage=2, **case.given(slope="alpha", offset="offset"))
    reward = case.tensor("rewards")
    batch = credited(method.with_(reward=()), Batch.from_rewards(reward, [0] * len(reward)))
    return {
        "weight": batch["group.hardness"][0],
        "advantage": batch["rollout.advantage"],
    }


def _targeted_entropy(case: Case) -> dict[str, Any]:
    """The term on a batch of one token for each entropy, which is then its mean."""
    settings = case.given(target="target", coefficient="coef")
    term = methods.confucius3_math(stage=1, **settings).objective[1]
    losses, slopes = [], []
    for h in case.tensor("mean_entropy"):
        entropy = h.reshape(1).clone().requires_grad_()
        loss = term(Batch.from_padded(torch.ones(1, 1), [0], {"token.now.entropy": entropy[None]}))
        (slope,) = torch.autograd.grad(loss, entropy)
        losses.append(float(loss.detach()))
        slopes.append(float(slope))
    return {"loss_term": losses, "grad_wrt_entropy": slopes}


def _recovered(case: Case) -> list[dict[str, Any]]:
    steps, waiting, seen = [], [], 0
    for kept in case["kept_prompts_per_generation"]:
        taken, left = take_oldest([*waiting, *range(seen, seen + kept)], case.hyper["batch_size"])
        waiting, seen = list(left), seen + kept
        steps.append({"train": taken, "carried": waiting})
    return steps
