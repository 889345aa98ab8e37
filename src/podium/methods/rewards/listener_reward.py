"""Listener reward: explanations that convince a model which did not write them."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import ListenerReward
from podium.strategies import OptionScores, Sample

__all__ = ["listener_reward"]


@recipe(
    summary="A frozen listener reads the explanation without its answer: its probability of the right choice is paid.",
    citation="Listener-Rewarded Thinking in VLMs for Image Preferences, https://arxiv.org/abs/2506.22832",
    tags=("vision", "multimodal", "explanations", "frozen reader", "calibration", "preferences"),
    protocol=Protocol(
        model="Qwen2.5-VL-7B-Instruct",
        source="two public summaries of arXiv 2506.22832, whose third version is reported as withdrawn; no code was "
        "found: weights and the data share are theirs, the rest is GRPO in TRL",
    ),
    home=Home("badges", level=2, dials={"ask": "banned"}, iterations=10, tasks=16, model="podium/tiny2"),
    presets={"gated": {"gated": True}},
)
def listener_reward(
    n: int = 8,
    listener: str = "initial",
    format: float = 1.0,
    accuracy: float = 0.5,
    weight: float = 0.5,
    gated: bool = False,
    epsilon: float = 1e-4,
    clip: float = 0.2,
    kl: float = 0.04,
    mini_batches: int = 4,
) -> Method:
    """r = format · [reasoning, then an answer] + accuracy · [right] + weight · p(right answer), where p are the
    probabilities of the options under a frozen listener that sees the task and the reasoning up to the answer, divided
    by their sum. GRPO otherwise.

    weight = 0 is GRPO on accuracy and format. Among right answers convincing ones are preferred, also where all are
    right. Without reasoning or an answer the listener sees the task alone. Reasoning that states the answer convinces,
    which is intended. `listener-reward@gated`, which is ours, pays the listener for right answers only.

    Args:
        n: Rollouts per task (the group size).
        listener: Who listens: `initial`, the policy before training; or a model's or a run's path.
        format: Weight of the format.
        accuracy: Weight of a right answer.
        weight: Weight of the listener's probability.
        gated: Whether the listener counts for right answers only.
        epsilon: Added to the standard deviation.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
    """
    method = Method(
        rollout=OptionScores(strategy=Sample(n=n), role="listener"),
        reward=(ListenerReward(format, accuracy, weight, gated),),
        advantage=Normalize(epsilon=epsilon),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.disagrees"), ReportMean("rollout.heard")),
        roles=(Role("listener", source=listener),),
    )
    return anchored(method, KL("k3", coefficient=kl))
