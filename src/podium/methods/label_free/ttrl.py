"""TTRL: test-time reinforcement learning."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric import VoteQuality
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import Majority
from podium.strategies import Sample

__all__ = ["ttrl"]


@recipe(
    summary="Test-time RL on unlabelled tasks: the majority vote of many rollouts is the pseudo-label.",
    citation="Zuo et al. 2025, TTRL: Test-Time Reinforcement Learning, https://arxiv.org/abs/2504.16084",
    tags=("test-time training", "label-free", "majority vote", "self-consistency"),
    protocol=Protocol(
        model="Qwen2.5-Math-1.5B",
        lr=5e-7,
        betas=(0.9, 0.999),
        weight_decay=0.01,
        warmup=0.03,
        schedule="cosine",
        clip=1.0,
        tasks=8,
        iterations=240,
        max_tokens=3072,
        max_turns=1,
        pool=30,
        source="PRIME-RL/TTRL verl/examples/ttrl/aime.sh",
    ),
    home=Home("sums", level=2, tasks=8, iterations=8),
    presets={"paper": {"trained": 32}},
)
def ttrl(
    votes: int = 64,
    trained: float = 0.5,
    epsilon: float = 1e-6,
    clip: float = 0.2,
    dual: float | None = 3.0,
    kl: float = 0.001,
    mini_batches: int = 8,
) -> Method:
    """r_i = [answer_i = the most frequent of the `votes` answers]; of these the first half (`trained`) is trained, with
    GRPO's advantage over themselves alone; clip 0.2, k3 to the reference with 0.001, token mean.

    The true label enters the metrics only. Where the vote is right on every task it is GRPO on the first `trained`
    rollouts. A single trained rollout gets advantage 0 (the release: its reward); a task without any answer is skipped
    (the release fails there).

    Args:
        votes: Rollouts per task that vote.
        trained: How many of them are trained, or below 1 which share of them; the rest only vote.
        epsilon: Added to the standard deviation.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|; None: no dual clip.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
    """
    method = Method(
        rollout=Sample(n=votes, trained=trained),
        reward=(Majority(),),
        advantage=Normalize(epsilon=epsilon, singleton="zero", trained_only=True),
        objective=(PolicyGradient(clip=Clip(clip, clip, dual=dual)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(VoteQuality(), VoteQuality(trained_only=True)),
    )
    return anchored(method, KL("k3", coefficient=kl))
