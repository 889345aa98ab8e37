"""Confucius3-Math: hardness-weighted advantages and targeted entropy regularisation."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.shares import ShareOfRun
from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Iterations, Method, Phases, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import KeepMixed
from podium.parts.objective import Clip, EntropyTarget, PolicyGradient
from podium.parts.reward import SignedReward
from podium.parts.shape import Hardness
from podium.strategies import Draw, Sample

__all__ = ["confucius3_math"]


TOKENS = {1: 0.25, 2: 0.5, 3: 1.0}  # of the run's limit, by stage: contexts of 4K, 8K and 16K
HOURS = {1: 4234, 2: 5470, 3: 3405}  # of GPUs, by stage


@recipe(
    summary="Weights advantages by difficulty, holds entropy at a target, and carries surplus groups over.",
    citation="Confucius3-Math, https://github.com/netease-youdao/Confucius3-Math",
    tags=("difficulty", "entropy", "dynamic sampling", "math", "replay"),
    protocol=Protocol(
        model="DeepSeek-R1-Distill-Qwen-14B",
        tasks=256,
        max_tokens=16384,
        source="netease-youdao/Confucius3-Math Confucius3-Math.pdf, sections 4 to 6 and table 4",
    ),
    home=Home("sums", level=2, max_tokens=160),
    presets={"stage-1": {"stage": 1}, "stage-2": {"stage": 2}, "stage-3": {"stage": 3}},
)
def confucius3_math(
    n: int = 16,
    stage: int = 0,
    slope: float = -0.256,
    offset: float = 1.256,
    target: float = 0.55,
    coefficient: float = 0.001,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    mini_batches: int = 4,
) -> Method:
    """Three stages, one after the other. Stage 1, with a quarter of the tokens: GRPO + coefficient · |H − target|, H
    the mean entropy. Stage 2, with half of them: rewards ±1, A = (r − mean) · (offset + slope · mean), DAPO's clip, the
    sum over all tokens; groups without signal are dropped and resampled, and surplus groups train in the next batch
    with the log-probabilities they were sampled with. Stage 3: the same with all tokens.

    With slope = 0 and offset = 1 the advantage is Dr. GRPO's on rewards of ±1. Each stage has the share of the
    iterations that it had of the authors' GPU hours. The report gives neither the group size nor clip, learning rate
    and optimiser steps per batch.

    Args:
        n: Rollouts per task (the group size).
        stage: A single stage of the three, 1 to 3; 0: all of them.
        slope: Change of the advantage's weight with the group's mean reward (stages 2 and 3).
        offset: Weight at a mean reward of 0 (stages 2 and 3).
        target: Target entropy in nats (stage 1).
        coefficient: Weight of the entropy's distance to its target (stage 1).
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low; in stage 1 both ends.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high (stages 2 and 3).
        mini_batches: Optimiser steps per batch; the number is ours.
    """
    if stage not in (0, *TOKENS):
        raise PodiumError(f"confucius3-math: stage = {stage!r} is not 0, 1, 2 or 3.")
    rollout = {number: Sample(n=n, draw=Draw(token_share=share)) for number, share in TOKENS.items()}
    updates = Updates(mini_batches=mini_batches)
    pull = EntropyTarget(target, distance="abs", coefficient=coefficient)
    sequence = Aggregate("token mean, rollout mean")
    first = Method(
        "targeted entropy",
        rollout=rollout[1],
        reward=(SignedReward(),),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_low), aggregate=sequence), pull),
        updates=updates,
    )
    second = first.with_(
        name="hardness",
        rollout=rollout[2],
        keep=(KeepMixed(carry_over=True),),
        advantage=Normalize(scale="none", singleton="zero"),
        shape=(Hardness(slope, offset),),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high), aggregate=Aggregate("token sum")),),
    )
    third = second.with_(name="full length", rollout=rollout[3])
    if stage:
        return (first, second, third)[stage - 1]
    shares = {number: ShareOfRun(hours / sum(HOURS.values())) for number, hours in HOURS.items()}
    return Phases(first.until(Iterations(shares[1])), second.until(Iterations(shares[2])), third)
