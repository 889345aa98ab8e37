"""Methods whose regularisation is steered by how training goes."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.policy.head.functionals import soft_min
from tests.conformance.case import Case
from tests.conformance.registry import adapter


@adapter("safe-control")
def safe_control(case: Case) -> dict[str, Any]:
    kinds = {
        "entropy_gated_kl": gated,
        "soft_min": minimum,
        "asymmetric_kl": asymmetric,
        "reward_normalizer": normalized,
    }
    return kinds[case.hyper["kind"]](case)


def gated(case: Case) -> dict[str, Any]:
    settings = case.given(base="base_threshold", floor="entropy_floor", kp="kp", ki="ki", kd="kd")
    _, controller = methods.safe_control(threshold=0.3).memories
    controller, order = controller.replace(**settings), case.hyper["columns"]
    state, states = controller.initial(), []
    for row in case["steps"]:
        state = controller.step(state, **dict(zip(order, row, strict=True)))
        states.append(state)
    names = ("penalty", "threshold", "kl_short", "entropy_factor", "phase")
    found = {name: [s[name] for s in states] for name in names}
    last = {f"last_{name}": found[name][-1] for name in ("penalty", "threshold", "phase")}
    return found | last | {"phases": sorted(set(found["phase"]))}


def minimum(case: Case) -> dict[str, Any]:
    heads = torch.stack([case.tensor("value_1"), case.tensor("value_2")], dim=-1)
    (value,) = methods.safe_control(softmin=case.hyper["alpha"]).annotate
    return {"value": soft_min(heads, value.softmin)}


def asymmetric(case: Case) -> dict[str, Any]:
    names = {"threshold": "threshold", "weight": "quadratic", "momentum": "momentum", "window": "window"}
    _, controller = methods.safe_control(controller="asymmetric").memories
    controller = controller.replace(**case.given(**names))
    state, found = controller.initial(), []
    for kl in case["kl"]:
        state = controller.step(state, kl=kl, entropy=0.0, reward=0.0)
        found.append(state["penalty"])
    return {"penalty": found}


def normalized(case: Case) -> dict[str, Any]:
    method = methods.safe_control()
    (memory, _), (part,) = method.memories, method.reward
    state, found = memory.initial(), []
    for rewards in case["batches"]:
        batch = Batch.from_rewards(torch.tensor(rewards, dtype=torch.float64), list(range(len(rewards))))
        batch = batch.with_columns(memory.recall(state, []))
        found.append(part(batch)["rollout.reward.normalized"].tolist())
        state = memory.observe(state, batch)
    return {"normalized": found}
