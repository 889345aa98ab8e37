"""T-PPO: truncated proximal policy optimisation."""

from __future__ import annotations

from podium.core.schedule import Count, Steps
from podium.core.shares import ShareOfRun, ShareOfTokens
from podium.core.updates import Updates
from podium.memories import InFlight
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import GAE
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient, ValueLoss
from podium.parts.reward import TokenReward
from podium.parts.select import ResumeFirst
from podium.strategies import Windowed

__all__ = ["tppo"]


@recipe(
    summary="PPO on generation windows: trains unfinished rollouts with bootstrapped advantages, resumes them later.",
    citation="Truncated Proximal Policy Optimization (T-PPO)",
    extends="ppo",
    tags=("critic", "value function", "efficiency", "long context", "clipping"),
    protocol=Protocol(
        model="Qwen2.5-32B",
        lr=1e-6,
        tasks=512,
        max_tokens=24576,
        source="readers' notes and public reviews of the paper",
    ),
    home=Home("sums", level=2),
    presets={"paper": {"window": 8192}},
)
def tppo(
    n: int = 16,
    window: Count = ShareOfTokens(1 / 3),
    gamma: float = 1.0,
    lam: float = 0.95,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    warmup: Count = ShareOfRun(0.25),
    critic_lr: float = 2.0,
    mini_batches: int = 16,
) -> Method:
    """Each iteration generates at most `window` new tokens of every rollout; those that end, or reach the run's limit,
    are graded and replaced by new tasks, the others are resumed in the next one. A_t = Σ (gamma·lam)^k δ_{t+k}, where
    the value after the last token of an unfinished rollout is the one before it; PPO's clip on the new tokens alone,
    token mean. The critic learns from all tokens of the rollouts that have just finished, with Monte-Carlo returns.

    A window as long as the limit is PPO with GAE. While the critic says 0 everywhere, unfinished rollouts carry no
    signal: it is warmed up first, and learns at twice the policy's rate. The window is a third of the limit, as in the
    paper (8k of 24k tokens), whose batches of 512 tasks with 16 rollouts are trained in mini-batches of 512 (taken here
    as rollouts: 16 steps). lam, clip, the learning rates, the length of the warm-up and no whitening are assumptions;
    with n > 1 a task holds its place until its last rollout has finished. Worlds of single answers only.

    Args:
        n: Rollouts per task.
        window: New tokens per rollout and iteration.
        gamma: Discount factor per token.
        lam: GAE's λ.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        warmup: Iterations in which only the critic is trained; 0: none.
        critic_lr: Learning rate of the critic, relative to the policy's.
        mini_batches: Optimiser steps per batch.
    """
    surrogate = PolicyGradient(clip=Clip(clip_low, clip_high), where="token.new")
    return Method(
        select=ResumeFirst(),
        rollout=Windowed(n, window),
        reward=(TokenReward(finished="rollout.finished"),),
        advantage=GAE(gamma, lam, lam_return=1.0, finished="rollout.finished"),
        objective=(
            surrogate.replace(coefficient=Steps((0.0, 1.0), (0, warmup))) if warmup else surrogate,
            ValueLoss(None, where="rollout.finished"),
        ),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.finished"),),
        memories=(InFlight(),),
        roles=(Role("critic", lr_ratio=critic_lr),),
    )
