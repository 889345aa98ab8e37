"""Policies that draw: rewards and values of the steps of a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from tests.conformance.case import Case
from tests.conformance.helpers import credited
from tests.conformance.registry import adapter


def _drawn(scores: Sequence[Sequence[float]], groups: Sequence[Any], starts: Sequence[float] | None = None) -> Batch:
    """Pictures with these scores after their steps, and before the first."""
    rollouts = []
    for number, (row, group) in enumerate(zip(scores, groups, strict=True)):
        turn = Turn(range(len(row)), tokens={"score": list(map(float, row))})
        columns = {} if starts is None else {"score": float(starts[number])}
        rollouts.append(Rollout(group, [turn], columns=columns))
    return Batch.from_rollouts(rollouts, dtype=torch.float64)


def _by_step(batch: Batch, x: Tensor) -> Tensor:
    """[picture, step] of pictures with equally many steps."""
    return x.reshape(len(batch), -1)


@adapter("tp-grpo")
def tp_grpo(case: Case) -> dict[str, Any]:
    rows = case["completion_rewards"]
    batch = _drawn([row[1:] for row in rows], case["group_ids"], [row[0] for row in rows])
    method = methods.tp_grpo(balance=case.hyper["balance"], epsilon=case.hyper["eps"], limit=None)
    batch = credited(method, batch)
    return {
        "increments": _by_step(batch, batch["token.gained"]),
        "turning_point_mask": _by_step(batch, batch["token.turning"]),
        "step_rewards": _by_step(batch, batch["token.reward.step"]),
        "advantages": _by_step(batch, batch["token.advantage"]),
    }


@adapter("vgpo")
def vgpo(case: Case) -> dict[str, Any]:
    names = {"gamma": "gamma", "k": "k", "absolute_steps": "absolute_steps", "epsilon": "eps"}
    method = methods.vgpo(**{name: case.hyper[key] for name, key in names.items()})
    rows = case["instant_rewards"]
    batch = credited(method, _drawn(rows, [0] * len(rows)))
    return {
        "q": _by_step(batch, batch["token.q"]),
        "omega": _by_step(batch, batch["token.omega"]),
        "advantage": _by_step(batch, batch["token.advantage"]),
    }
