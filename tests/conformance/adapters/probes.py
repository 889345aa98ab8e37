"""Probes after each step."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from tests.conformance.case import Case
from tests.conformance.registry import adapter


@adapter("spae")
def spae(case: Case) -> dict[str, Any]:
    if case.hyper["kind"] == "potential":
        return _potential(case)
    settings = case.given(alpha="alpha", xi="xi", saturation="saturation", epsilon="epsilon")
    method = methods.spae(imitate=0, **settings)
    rollouts = [
        Rollout(
            group,
            [Turn(ids=[0] * len(steps), tokens={"segment": steps})],
            columns={"reward": float(reward)},
            segments={"potential": [float(x) for x in potentials]},
        )
        for reward, group, potentials, steps in zip(
            case["rewards"], case["groups"], case["potentials"], case["step_of_token"], strict=True
        )
    ]
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    lengths = [len(steps) for steps in case["step_of_token"]]

    def ragged(batch: Batch) -> list[list[float]]:
        return [x.tolist() for x in batch["token.advantage"].split(lengths)]

    raw = batch.with_columns(method.advantage(batch))
    (whiten,) = method.shape
    return {"raw_advantages": ragged(raw), "advantages": ragged(raw.with_columns(whiten(raw)))}


def _potential(case: Case) -> dict[str, Any]:
    right, sure = (
        torch.tensor([row[case.hyper["columns"].index(name)] for row in case["rows"]], dtype=torch.float64)
        for name in ("correctness", "confidence")
    )
    (part,) = methods.spae(imitate=0).annotate
    batch = Batch.from_rewards(torch.zeros_like(right), [0] * len(right), {})
    batch = batch.with_level("segment", torch.arange(len(right)), of="rollout", parent="group")
    batch = batch.with_columns({part.needs[0]: right, "segment.confidence": sure})
    return {"potential": part(batch)["segment.potential"]}
