"""HICRA: hierarchy-aware credit assignment to planning tokens."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.memories import PlanningPhrases
from podium.method import Home, Method, Protocol
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import MarkPhrases
from podium.parts.metric.entropies import SemanticEntropy
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.shape import Tilt
from podium.strategies import Sample

__all__ = ["hicra"]


# Phrases that announce a plan.
PLANS = (
    "let's try another",
    "try a different approach",
    "we can use the fact",
    "let me check",
    "the next step is",
    "first we need to",
    "this means that",
    "on the other hand",
)


@recipe(
    summary="Hierarchy-aware credit assignment: more credit and less blame for planning tokens (strategic grams).",
    citation="HICRA: Emergent Hierarchical Reasoning in LLMs, https://github.com/TIGER-AI-Lab/Hierarchical-Reasoner",
    tags=("credit assignment", "planning", "token-level", "exploration"),
    protocol=Protocol(
        model="Qwen3-4B-Instruct-2507",
        max_turns=1,
        source="TIGER-AI-Lab/Hierarchical-Reasoner: README; arXiv 2509.03646",
    ),
    home=Home("rules"),
    presets={"listed": {"mined": 0.0}},
)
def hicra(
    phrases: tuple[str, ...] = PLANS,
    mined: float = 0.2,
    alpha: float = 0.2,
    n: int = 8,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    kl: float = 0.0,
    mini_batches: int = 4,
) -> Method:
    """A + alpha · |A| at tokens that belong to a planning phrase: 1.2 A where the answer is right, 0.8 A where it is
    wrong. A = reward − mean of the group; PPO's clip with a higher upper end; token mean.

    Planning phrases are the listed ones and those that the run finds itself: of all phrases of 3 to 5 words in its
    right answers, the share `mined` that most of them contain. The authors cluster such phrases by their embeddings,
    once and for all, before training; here two are the same if they differ in numbers alone, and they are counted in
    every iteration, so that the first one has the listed phrases only.

    alpha = 0, or a text without any phrase, is GRPO without the std. For alpha < 1 no sign changes. The authors' recipe
    is not published: the upper clip and the 4 updates per batch are ours.

    Args:
        phrases: Phrases that mark planning from the start.
        mined: Share of the phrases found in right answers, the most frequent, that mark planning; 0: none.
        alpha: How much planning tokens are favoured.
        n: Rollouts per task (the group size).
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
    """
    listed = tuple(phrases)
    method = Method(
        rollout=Sample(n=n),
        annotate=(MarkPhrases(listed, mined=mined > 0),),
        advantage=Normalize(scale="none"),
        shape=(Tilt(alpha),),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("token.planning"), SemanticEntropy(listed, mined=mined > 0)),
        memories=(PlanningPhrases(share=mined),) if mined > 0 else (),
    )
    return anchored(method, KL("k3", coefficient=kl))
