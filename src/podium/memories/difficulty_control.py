"""Controllers of ARES: the entropy threshold of windows, and reward and KL weights per difficulty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State
from podium.core.part import Columns
from podium.core.schedule import Count
from podium.parts.reward.difficulty_entropy import EASY, HARD, MEDIUM, OLD, REF

__all__ = ["DifficultyControl", "by_difficulty"]


def by_difficulty(x: Tensor, level: Tensor, where: Tensor | None = None) -> list[float]:
    """The mean of x over the rollouts of each difficulty; NaN for a difficulty without rollouts."""
    of_bucket = (level == bucket for bucket in (EASY, MEDIUM, HARD))
    return [float(x[rows if where is None else rows & where].double().mean()) for rows in of_bucket]


class DifficultyControl(Memory):
    """Controls the entropy threshold of windows, and per difficulty the weights of their reward and of the KL.

    - threshold ← 0.99 · threshold + 0.01 · median of the rollouts' 95 % quantiles, starting from the first median;
    - alpha ← clip(alpha ± alpha_step · (mean count − target), 0, 2), minus on hard tasks;
    - beta: with e = KL / target_kl − 1 of a running mean of the KL, every `interval` iterations and unless
      |e| < deadzone: ē ← decay · ē + (1 − decay) · e, ln beta ← ln beta + log_step · clip(ē, ±error_clip).
    """

    reference = "ARES, https://github.com/shawn0728/ARES"
    target_kl: float = 0.01  # > 0
    interval: Count = 100  # iterations, ≥ 1
    decay: float = 0.97  # of the running means of KL and error, in [0, 1]
    log_step: float = 0.05
    error_clip: float = 0.2
    deadzone: float = 0.02  # relative errors below this are ignored
    alpha_step: float = 0.05

    needs = (
        "rollout.moments",
        "rollout.moments.target",
        "rollout.moments.quantile",
        "rollout.difficulty",
        OLD,
        REF,
    )
    provides = ("batch.moments.threshold", "batch.difficulty.alpha", "batch.difficulty.beta")

    def __post_init__(self) -> None:
        within(self, "target_kl", 0, open_low=True)
        within(self, "interval", 1)
        within(self, "decay", 0, 1)

    def initial(self) -> State:
        three = (0.0, 0.0, 0.0)
        state = {"threshold": float("nan"), "alpha": (0.5,) * 3, "log_beta": three}
        return state | {"kl": (float("nan"),) * 3, "error": three, "seen": 0}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {
            "batch.moments.threshold": torch.tensor([state["threshold"]]),
            "batch.difficulty.alpha": torch.tensor([state["alpha"]]),
            "batch.difficulty.beta": torch.tensor([state["log_beta"]]).exp(),
        }

    def regulated(self, state: State, kl: Sequence[float]) -> State:
        """The state after an iteration with these mean KLs per difficulty; NaN for a difficulty without rollouts."""
        seen, means, errors, betas = state["seen"] + 1, list(state["kl"]), list(state["error"]), list(state["log_beta"])
        for level, new in enumerate(kl):
            if math.isnan(new):
                continue
            before = new if math.isnan(means[level]) else means[level]
            means[level] = self.decay * before + (1 - self.decay) * new
            error = means[level] / self.target_kl - 1
            if seen % self.interval == 0 and abs(error) >= self.deadzone:
                errors[level] = self.decay * errors[level] + (1 - self.decay) * error
                moved = betas[level] + self.log_step * min(max(errors[level], -self.error_clip), self.error_clip)
                betas[level] = min(max(moved, math.log(1e-4)), math.log(100.0))
        return state | {"seen": seen, "kl": tuple(means), "error": tuple(errors), "log_beta": tuple(betas)}

    def observe(self, state: State, batch: Batch) -> State:
        rollouts = batch.by("rollout")
        if not bool(rollouts.agg.count().any()):
            return state
        d = (batch[REF] - batch[OLD]).clamp(-20, 20)
        k3 = batch.reduce(d.exp() - d - 1, "token", "rollout", "mean")  # the k3 estimate of the KL
        level, count, target = (batch[f"rollout.{n}"] for n in ("difficulty", "moments", "moments.target"))
        kl, surplus = (by_difficulty(x, level, rollouts.where) for x in (k3, count - target))
        alpha = list(state["alpha"])
        for bucket, excess in enumerate(surplus):
            step = 0.0 if math.isnan(excess) else self.alpha_step * (-excess if bucket == HARD else excess)
            alpha[bucket] = min(max(alpha[bucket] + step, 0.0), 2.0)
        median = float(rollouts.agg.quantile(batch["rollout.moments.quantile"], 0.5)[0])
        threshold = state["threshold"]
        threshold = median if math.isnan(threshold) else 0.99 * threshold + 0.01 * median
        return self.regulated(state | {"threshold": threshold, "alpha": tuple(alpha)}, kl)

    def scalars(self, state: State) -> dict[str, float]:
        named = zip(("easy", "medium", "hard"), state["alpha"], state["log_beta"], strict=True)
        weights = {f"{x}.{name}": v for name, a, b in named for x, v in (("alpha", a), ("beta", math.exp(b)))}
        return weights | {"moments.threshold": state["threshold"]}
