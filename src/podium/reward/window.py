"""Rewards for how often a rollout stops to think: windows of high entropy, counted against the task's difficulty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["DifficultyControl", "ThinkingMoments", "WindowReward", "by_difficulty", "difficulty", "entropy_reward"]

EASY, MEDIUM, HARD = 0, 1, 2
MARGIN, KNEE, WARMTH, CAP = (0.15, 0.25, 0.35), (2.0, 3.0, 4.0), (2.0, 2.5, 3.0), (1.0, 1.0, 1.2)
CONSOLATION = (0.6, 0.8, 1.0)  # what a wrong answer's search counts for
OLD, REF = Signal("logp", of="old"), Signal("logp", of="ref")


def difficulty(batch: Batch) -> Tensor:
    """[rollout] 0 easy, 1 medium, 2 hard: the group solves at least two thirds, at least one third, or less."""
    solved = batch.by("rollout", "group").mean(batch["rollout.correct"].to(batch.dtype))
    return (solved < 2 / 3).long() + (solved < 1 / 3).long()


def entropy_reward(count: Tensor, target: Tensor, level: Tensor, correct: Tensor, alpha: Tensor) -> Tensor:
    """What `count` windows of high entropy earn where `target` are expected; |result| ≤ alpha times the level's cap."""
    f, kappa, tau, cap, share = (
        torch.tensor(x, dtype=count.dtype, device=count.device)[level] for x in (MARGIN, KNEE, WARMTH, CAP, CONSOLATION)
    )
    c, delta = alpha * cap, count - target
    g = (f * target.clamp(min=1)).clamp(min=1)

    def cost(x: Tensor) -> Tensor:
        """Huber's cost of an excess x ≥ 0, relative to the margin."""
        x = x.clamp(min=0)
        return torch.where(x <= kappa, x.square() / (2 * kappa), x - kappa / 2) / (g + kappa)

    off = torch.where(level == EASY, delta - g, delta.abs() - g)
    fewer = -torch.minimum(c, c * cost(off))
    more = torch.where(delta >= -g, c * torch.sigmoid((delta + g) / tau), -torch.minimum(c, c * cost(-delta - g) / 2))
    search = c * torch.sigmoid((delta - g).clamp(min=0) / tau) * share
    return torch.where(correct, torch.where(level == HARD, more, fewer), search)


def by_difficulty(x: Tensor, level: Tensor, where: Tensor | None = None) -> list[float]:
    """The mean of x over the rollouts of each difficulty; NaN where there are none."""
    levels = (level == bucket for bucket in (EASY, MEDIUM, HARD))
    return [float(x[inside if where is None else inside & where].double().mean()) for inside in levels]


class ThinkingMoments(Reward):
    """How many trigger tokens open a window of high entropy, how much higher, and the rollout's own 95 % quantile.

    The window of a token is the next `window` tokens of its rollout; without that many it has none. It is high if its
    mean entropy reaches the tracked threshold, or the median of the rollouts' quantiles before there is one.
    """

    reference = "ARES, https://github.com/shawn0728/ARES"
    window: int = 4
    trigger: str = "token.trigger"  # a boolean column
    of: str = "sampler"  # whose entropy
    top_k: int = 0  # entropies in which all tokens but so many count as one; 0: of the whole distribution

    provides = (
        "rollout.moments",
        "rollout.moments.below",
        "rollout.moments.excess",
        "rollout.moments.quantile",
        "rollout.difficulty",
    )

    def __post_init__(self) -> None:
        within(self, "window", 1)
        within(self, "top_k", 0)

    @property
    def _entropy(self) -> Signal:
        return Signal("entropy", of=self.of, top_k=self.top_k) if self.top_k else Signal("entropy", of=self.of)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self._entropy, self.trigger, "batch.moments.threshold", "rollout.correct")

    def windows(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """[token] the mean entropy of the window after it, and whether it has one."""
        h = batch[self._entropy]
        there, total = torch.ones_like(h), torch.zeros_like(h)
        for _ in range(self.window):  # h moves along the model's tokens, one at a time
            h, there = (batch.following(x, "token", where=batch.action) for x in (h, there))
            total = total + h
        return total / self.window, (there > 0) & batch.action

    def __call__(self, batch: Batch) -> Columns:
        mean, whole = self.windows(batch)
        quantile = batch.partition("token", "rollout").agg.quantile(mean, 0.95, whole).nan_to_num(0)
        threshold = batch["batch.moments.threshold"]
        current = batch.by("rollout").agg.quantile(quantile, 0.5).nan_to_num(0)
        bar = batch.spread(torch.where(threshold.isnan(), current, threshold), "batch", "token")
        opened = batch[self.trigger] & whole
        high = (opened & (mean >= bar)).to(batch.dtype)

        def total(x: Tensor) -> Tensor:
            return batch.reduce(x, "token", "rollout", "sum")

        return {
            "rollout.moments": total(high),
            "rollout.moments.below": total(opened.to(batch.dtype) - high),
            "rollout.moments.excess": total((mean - bar).clamp(min=0).where(opened, 0)),
            "rollout.moments.quantile": quantile,
            "rollout.difficulty": difficulty(batch),
        }


class WindowReward(Reward):
    """[right] + `entropy_reward`: few windows of high entropy on easy tasks, many on hard ones.

    The target of a difficulty is the rounded mean over its tasks of their mean count in this batch. The weight of the
    distance to the reference is the controller's for the difficulty, and less for a wrong rollout on an easy task that
    has searched (`second_chance`).
    """

    reference = "ARES, https://github.com/shawn0728/ARES"
    second_chance: Number = 0.67
    searched: float = 0.5  # from this excess on a rollout has searched

    needs = (
        "rollout.moments",
        "rollout.moments.excess",
        "rollout.difficulty",
        "rollout.correct",
        "batch.difficulty.alpha",
        "batch.difficulty.beta",
    )
    provides = ("rollout.reward", "rollout.reward.windows", "rollout.moments.target", "rollout.kl_weight")

    def __call__(self, batch: Batch) -> Columns:
        count, level, right = batch["rollout.moments"], batch["rollout.difficulty"], batch["rollout.correct"].bool()
        tasks = batch.by("rollout", "group")
        size = tasks.count().clamp(min=1)  # each task once
        target = batch.by("rollout", level).mean(tasks.mean(count), weight=1 / size.to(count.dtype)).round()
        alpha, beta = (batch[f"batch.difficulty.{name}"][0][level] for name in ("alpha", "beta"))
        extra = entropy_reward(count, target, level, right, alpha)
        searching = (level == EASY) & ~right & (batch["rollout.moments.excess"] >= self.searched)
        return {
            "rollout.reward": right.to(batch.dtype) + extra,
            "rollout.reward.windows": extra,
            "rollout.moments.target": target,
            "rollout.kl_weight": torch.where(searching, beta * self.second_chance, beta),
        }


class DifficultyControl(Memory):
    """What ARES tracks: the threshold of windows, and for each difficulty the reward's weight and the KL's.

    threshold ← 0.99 threshold + 0.01 (median of the rollouts' quantiles), the first median at first;
    alpha ± 0.05 (mean count − target) in [0, 2]; with e = KL/target_kl − 1 of a running mean of the KL, every
    `interval` iterations, but not where |e| < deadzone, ē ← 0.97 ē + 0.03 e, ln beta += log_step · clip(ē, ±error_clip)
    """

    reference = "ARES, https://github.com/shawn0728/ARES"
    target_kl: float = 0.01
    interval: int = 100
    decay: float = 0.97  # of the running means of KL and error
    log_step: float = 0.05
    error_clip: float = 0.2
    deadzone: float = 0.02
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
        """The state after another iteration with these mean KLs by difficulty; NaN where there was none."""
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
        everyone = batch.by("rollout")
        if not bool(everyone.agg.count().any()):
            return state
        d = (batch[REF] - batch[OLD]).clamp(-20, 20)
        own = batch.reduce(d.exp() - d - 1, "token", "rollout", "mean")
        level, count, target = (batch[f"rollout.{n}"] for n in ("difficulty", "moments", "moments.target"))
        kl, surplus = (by_difficulty(x, level, everyone.where) for x in (own, count - target))
        alpha = list(state["alpha"])
        for bucket, more in enumerate(surplus):
            step = 0.0 if math.isnan(more) else self.alpha_step * (-more if bucket == HARD else more)
            alpha[bucket] = min(max(alpha[bucket] + step, 0.0), 2.0)
        median = float(everyone.agg.quantile(batch["rollout.moments.quantile"], 0.5)[0])
        threshold = state["threshold"]
        threshold = median if math.isnan(threshold) else 0.99 * threshold + 0.01 * median
        return self.regulated(state | {"threshold": threshold, "alpha": tuple(alpha)}, kl)

    def scalars(self, state: State) -> dict[str, float]:
        named = zip(("easy", "medium", "hard"), state["alpha"], state["log_beta"], strict=True)
        found = {f"{x}.{name}": v for name, a, b in named for x, v in (("alpha", a), ("beta", math.exp(b)))}
        return found | {"moments.threshold": state["threshold"]}
