"""Information-consistent GRPO: answers to equivalent phrasings form one group."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.methods._taught import taught
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import InformationReward, PhrasingStability
from podium.strategies import Draw, Phrased

__all__ = ["info_consistent_grpo"]


@recipe(
    summary="Consistent recommendations: equivalent phrasings form a group, rewarded for equal information.",
    citation="Information-Consistent Language Model Recommendations through Group Relative Policy Optimization",
    tags=("consistency", "paraphrases", "recommendation", "entropy", "reward shaping"),
    protocol=Protocol(source="notes on the paper, which leaves weights and sizes free; no code was found"),
    home=Home("shop", level=2, iterations=10, model="podium/tiny2"),
    presets={"paper": {"task": 0.0}, "aggregate": {"spread": "group"}},
)
def info_consistent_grpo(
    pairs: int = 4,
    information: float = 0.5,
    stability: float = 0.5,
    task: float = 1.0,
    spread: str = "pair",
    kind: str = "entropy",
    largest: float | None = None,
    imitate: Count = 0,
    clip: float = 0.2,
    kl: float = 0.01,
    epsilon: float = 1e-6,
    mini_batches: int = 4,
) -> Method:
    """H: entropy of the words of an answer. R = task · r + information · (H − H_min) / (H_max − H_min) + stability · f,
    f = 1 − |H_a − H_b| / largest gap, for the two answers of a pair of phrasings; minimum, maximum and largest gap are
    those of the group, which holds the answers to all phrasings of a request. A = (R − mean) / (std + 1e-6) over it.

    stability = 0 is GRPO with an entropy reward. As the paper's formula reads, all answers get the mean of f over the
    pairs (`info-consistent-grpo@aggregate`): that is constant within the group, so the baseline removes it and only the
    information trains. f of each pair is our reading. The paper has no task reward (`info-consistent-grpo@paper`):
    then a long and varied list for every request is optimal. Equal entropy does not mean equal content; kind =
    "overlap" compares the words themselves.

    A model that does not know the world is taught its form first, by imitation of one phrasing a task (`imitate`).

    Args:
        pairs: Pairs of phrasings per task; the group has twice as many rollouts.
        information: Weight of the entropy of an answer.
        stability: Weight of the agreement of a pair.
        task: Weight of the world's reward; 0 in the paper.
        spread: `pair` gives each answer the agreement of its own pair, `group` gives all the mean.
        kind: `entropy` compares the amount of information, `overlap` the words.
        largest: A fixed largest gap in nats, for a single pair; None: that of the group.
        imitate: Iterations that imitate the world's solutions, before everything else; 0: none.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the policy after the imitation; 0 loads no reference model.
        epsilon: Added to the standard deviation.
        mini_batches: Optimiser steps per batch.
    """
    method = Method(
        rollout=Phrased(pairs=pairs),
        reward=(
            InformationReward(weight=information, task=task),
            PhrasingStability(weight=stability, spread=spread, kind=kind, largest=largest),
        ),
        advantage=Normalize(epsilon=epsilon),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
    )
    if kl:
        reference = Role("ref", source="phase") if imitate != 0 else Role("ref")
        method = method | KL("k3", coefficient=kl) | reference
    return taught(method, imitate, Draw())
