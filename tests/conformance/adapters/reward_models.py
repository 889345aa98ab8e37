"""Reward models: from feedback, and as vectors that a direction projects."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.parts.objective.feedback import mean_losses, noise_corrected
from podium.strategies.sample.directed import prompt_weights, unit_vector
from tests.conformance.case import Case
from tests.conformance.registry import adapter


@adapter("causalrm")
def causalrm(case: Case) -> dict[str, Any]:
    f, r = case.tensor("predicted_reward"), case.tensor("feedback")
    observed, propensity, imputed = (case.tensor(name) for name in ("observed", "propensity", "imputed_loss"))
    rates = case.hyper["rho_01"], case.hyper["rho_10"]
    (term,) = next(m for m in methods.causalrm(rates=rates).leaves() if m.name == "reward model").objective
    losses = mean_losses(f, r, observed, propensity, imputed, *term.rates)
    return {
        "surrogate_loss": noise_corrected(f, r, *term.rates),
        **{f"{name}_loss": losses[name] for name in ("ips", "dr", "naive")},
    }


@adapter("dpa")
def dpa(case: Case) -> dict[str, Any]:
    method = methods.dpa(first=0)
    (reward,), (keep,) = method.reward, method.keep
    angle, scores = case["angle_degrees"], case.tensor("rewards")
    columns = {"rollout.scores": scores, "rollout.angle": torch.tensor([angle] * len(scores), dtype=scores.dtype)}
    batch = Batch.from_rewards([0.0] * len(scores), [0] * len(scores), columns)
    batch = batch.with_columns(reward(batch))
    return {
        "direction": unit_vector(angle),
        "prompt_weights": prompt_weights(angle),
        "scores": batch["rollout.reward"],
        "selected": keep(batch)["rollout.keep.best"].tolist().index(True),
    }
