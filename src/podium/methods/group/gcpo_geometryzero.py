"""GCPO (GeometryZero): group contrastive policy optimisation of tool use."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfRun, ShareOfTokens
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.methods._shared import anchored
from podium.methods._taught import taught
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import MatchPatterns
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import ColumnBonus, ContrastiveFeature, LengthBonus
from podium.protocols.scaffold import Scaffold
from podium.protocols.tagged import Construction
from podium.strategies import Contrasted, Draw, Sample

__all__ = ["gcpo_geometryzero"]


ASKS = ("Use an auxiliary construction, between <aux> and </aux>.", "Do not use auxiliary constructions.")


@recipe(
    summary="Rewards tool use only where rollouts with it are right more often than those without; else penalises it.",
    citation="GeometryZero: Group Contrastive Policy Optimization, https://github.com/ekonwang/GeometryZero",
    protocol=Protocol(model="Qwen2.5-1.5B", source="summaries of https://arxiv.org/abs/2506.07160"),
    home=Home("sums", level=1),
    tags=("tool use", "reward shaping", "math", "group-relative"),
    presets={"paper": {"imitate": 0, "length_reference": 1024}},
)
def gcpo_geometryzero(
    n: int = 8,
    imitate: Count = ShareOfRun(0.34),
    asks: tuple[str, str] | None = ASKS,
    feature: str = r"(?s)<aux>.*</aux>",
    layout: str = r"(?m)^answer:",
    margin: float = 0.1,
    format_weight: float = 0.5,
    feature_weight: float = 0.5,
    length_weight: float = 0.1,
    length_reference: Count = ShareOfTokens(1.0),
    clip: float = 0.2,
    kl: float = 0.04,
    mini_batches: int = 4,
) -> Method:
    """reward = accuracy + 0.5 · [right format] + 0.5 · m · [uses the feature] + 0.1 · min(length / 1024, 1), with m the
    sign of (accuracy with the feature − accuracy without) in each group where the gap exceeds `margin`, else 0; then
    GRPO with k3.

    A group in which all rollouts use the feature, or none does, has m = 0. So that both occur, half of the group is
    asked to use it and half not to, and each is trained under the prompt it was given. margin ≥ 1 is GRPO with format
    and length rewards; m = 1 throughout would reward the tool unconditionally. The paper's weights and margin are not
    known.
    Models that write no such constructions are taught first, with and without, each as it is asked (`imitate`); the
    construction is not part of the answer that the world reads.

    Args:
        n: Rollouts per task (the group size).
        imitate: Iterations that imitate the world's solutions, with and without; before everything else; 0: none.
        asks: The instruction for each half of the group; None: no instruction.
        feature: Pattern (regular expression) of the feature in an answer.
        layout: Pattern of the right format.
        margin: Least gap in accuracy at which using the feature is rewarded or penalised.
        format_weight: Reward for the right format.
        feature_weight: Reward or penalty for using the feature.
        length_weight: Reward of an answer of `length_reference` tokens or more.
        length_reference: Tokens at which the length reward stops growing.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch; the authors' number is not known.
    """
    draw = Draw(format=Construction())
    method = Method(
        rollout=Sample(n=n, draw=draw) if asks is None else Contrasted(n=n, asks=asks, draw=draw),
        annotate=(MatchPatterns((("feature", feature), ("format", layout))),),
        reward=(
            ContrastiveFeature("rollout.feature", margin=margin, weight=feature_weight),
            ColumnBonus("rollout.format", format_weight),
            LengthBonus(length_reference, length_weight),
        ),
        advantage=Normalize(singleton="zero"),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
    )
    method = anchored(method, KL("k3", coefficient=kl))
    if kl:
        method = method | Role("ref", source="phase")
    ways = [Draw(context=Scaffold(below=ask)) for ask in asks or ("", "")]
    ways = [way.replace(format=Construction(shown=number == 0)) for number, way in enumerate(ways)]
    return taught(method, imitate, *ways, lr=3e-6)
