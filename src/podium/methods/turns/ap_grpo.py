"""AP-GRPO (HART): regions first, then an answer from these regions alone."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Iterations, Method, Phases, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric import EvidenceCoverage
from podium.parts.objective import KL, Likelihood, PolicyGradient
from podium.parts.shape import PreferenceWeights
from podium.protocols.context import Full, Latest
from podium.strategies import Demonstrate, Draw, Sample

__all__ = ["ap_grpo"]

SEQUENCE_MEAN = Aggregate("token mean, rollout mean")


@recipe(
    summary="Names regions, then answers from these alone; successes weigh more and are held less to the reference.",
    citation="Annotation-Free Visual Reasoning for High-Resolution Large Multimodal Models via RL, "
    "https://arxiv.org/abs/2602.23615",
    tags=("vision", "multimodal", "grounding", "evidence", "multi-turn", "kl penalty"),
    protocol=Protocol(
        model="Qwen2.5-VL-7B",
        source="arXiv 2602.23615: trained in TRL on 10,000 examples, the rest for supervised fine-tuning",
    ),
    home=Home("zoom", level=2, iterations=10, tasks=16, model="podium/tiny2"),
    presets={"shown": {"blind": False}, "paper": {"mini_batches": 1}},
)
def ap_grpo(
    n: int = 8,
    strength: float = 0.6,
    kl: float = 0.04,
    epsilon: float = 1e-4,
    blind: bool = True,
    first: Count = ShareOfRun(0.9),
    whole: str = "whole",
    style: str = "short",
    mini_batches: int = 2,
) -> Method:
    """With δ = r − the group's mean: −(1 + kδ) · ρ · A + kl · (1 − kδ) · KL, ρ the importance ratio of each token,
    without a clip, KL by k3; mean over the tokens of a rollout, then over rollouts. The turn that answers is shown
    nothing but the regions that the turn before has named, so that a right answer is evidence for the regions. Then
    supervised fine-tuning with the whole picture in view.

    strength = 0 is GRPO with a KL penalty and without a clip. In `zoom` an answer without a look is wrong.
    `ap-grpo@shown` answers with all of the conversation in view. The paper writes A = δ / std without saying which
    std: it is the unbiased one with 1e-4, as in TRL, and the KL coefficient is TRL's of that time.

    Args:
        n: Rollouts per task (the group size).
        strength: k, how much a success counts more in the policy gradient and less in the KL penalty.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        epsilon: Added to the standard deviation.
        blind: Whether a turn sees the last observation alone.
        first: Iterations of reinforcement learning; the rest are supervised fine-tuning.
        whole: The switch of the world that shows the whole picture, for the fine-tuning; empty: none.
        style: Which of the world's solutions to imitate, by its style.
        mini_batches: Optimiser steps per batch.
    """
    tuned = Method(
        "supervised fine-tuning",
        rollout=Demonstrate(styles=(style,), draw=Draw(context=Full()), dials={whole: True} if whole else None),
        objective=(Likelihood(),),
        updates=Updates(mini_batches=mini_batches),
    )
    method = Method(
        rollout=Sample(n=n, draw=Draw(context=Latest() if blind else Full())),
        advantage=Normalize(epsilon=epsilon),
        shape=(PreferenceWeights(strength, kl),),
        objective=(PolicyGradient(aggregate=SEQUENCE_MEAN, weight="rollout.policy_weight"),),
        updates=Updates(mini_batches=mini_batches),
        metric=(EvidenceCoverage(),),
    )
    if kl:
        method = method | KL("k3", aggregate=SEQUENCE_MEAN, weight="rollout.kl_weight") | Role("ref")
    return Phases(method.until(Iterations(first)), tuned)
