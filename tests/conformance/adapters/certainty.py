"""Credit that depends on what the model makes of its own answer."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.policy.head.effective_rank import rank_changes, rank_dynamics
from podium.policy.head.functionals import HeadRows
from tests.conformance.case import Case
from tests.conformance.helpers import configured, credited, marked_until, mask, padded
from tests.conformance.registry import adapter


@adapter("ucas")
def ucas(case: Case) -> dict[str, Any]:
    settings = case.given(positive="beta_positive", negative="beta_negative", penalty="logit_penalty")
    method = methods.ucas(scale="std" if case.hyper.get("norm_adv_by_std", True) else "none", **settings)
    parts = ("advantage", "shape.StatisticFactor", "shape.TokenPenalty")
    for part in parts:
        method = configured(case, method, {"epsilon": f"{part}.epsilon"})
    columns = {"token.old.logit": "token_logit", "rollout.reward": "rewards"}
    batch = padded(case, columns, group=case["groups"])
    # The case's certainty is the negative of the mean log-probability.
    logp = torch.tensor([[-x for x in row] for row in case["certainty"]], dtype=torch.float64)[mask(case).bool()]
    batch = credited(method, batch.with_columns({"token.old.mean_logp": logp}))
    return {"advantages": batch.to_padded(batch["token.advantage"])}


@adapter("verl-effective-rank")
def verl_effective_rank(case: Case) -> dict[str, Any]:
    if case.hyper["kind"] == "rank_dynamics":
        hidden = case.tensor("hidden")
        rows = HeadRows(hidden, torch.zeros(len(hidden), dtype=torch.long), lambda known: known)
        window, stride = case.hyper["max_length"], case.hyper["stride"]
        rank, velocity, acceleration = rank_dynamics(rows, stride, window)
        velocities, accelerations = rank_changes(hidden[-window:], stride)
        return {
            "effective_rank": rank,
            "velocity": velocity,
            "acceleration": acceleration,
            "step_velocities": velocities,
            "step_accelerations": accelerations,
        }
    (bonus,) = methods.verl_effective_rank(**case.given(gain="gain", kappa="kappa")).shape
    bonus = bonus.replace(weight=case.hyper["weight"], epsilon=case.hyper.get("epsilon", bonus.epsilon))
    names = ("rank", "velocity", "acceleration")
    lengths = case["lengths"]
    tokens = torch.tensor(marked_until(lengths, case.hyper["padded_length"]), dtype=torch.float64)
    signal = bonus.needs[-1]
    columns = {
        "rollout.advantage": case.tensor("advantage"),
        signal.column: torch.stack([case.tensor(name) for name in names], dim=1),
        "batch.rank.averages": torch.tensor([[case["baseline"][name] for name in names]], dtype=torch.float64),
    }
    batch = Batch.from_padded(tokens, list(range(len(lengths))), columns)
    return {
        "explore_weight": bonus.explore(batch),
        "bonus": bonus.bonus(batch),
        "advantages": batch.to_padded(bonus(batch)["token.advantage"]),
    }
