"""AMPO: adaptive multi-guidance policy optimisation with several teachers."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfTokens
from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import MatchPatterns
from podium.parts.keep import InjectTeachers, RouteByOrigin
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, Entropy, PolicyGradient, Shaped
from podium.parts.reward import WeightedSum
from podium.strategies import Repair, Teachers

__all__ = ["ampo"]


@recipe(
    summary="Guidance on demand: in failed groups, answers of the best-understood teachers replace some failures.",
    citation="Yuan et al. 2025, AMPO: Adaptive Multi-Guidance Policy Optimization, https://github.com/SII-Enigma/AMPO",
    tags=("teacher", "distillation", "off-policy", "demonstrations", "zero-variance groups"),
    protocol=Protocol(
        model="Qwen2.5-7B-Instruct",
        lr=1e-6,
        betas=(0.9, 0.999),
        weight_decay=0.1,
        warmup=0,
        schedule="constant",
        clip=1.0,
        tasks=128,
        iterations=510,
        max_tokens=8192,
        pool=8500,
        source="SII-Enigma/AMPO exp_scripts/train_ampo.sh",
    ),
    home=Home("sums", level=2, max_tokens=32),
    presets={"paper": {"max_length": 8192}, "hybrid": {"even_solved": 0.3}, "always": {"even_solved": 1.0}},
)
def ampo(
    n: int = 8,
    teachers: str = "",
    known: int = 4,
    most: int = 2,
    even_solved: float = 0.0,
    format_share: float = 0.1,
    layout: str = r"(?m)^answer:",
    gamma: float = 0.1,
    clip: float = 0.2,
    dual: float = 10.0,
    max_length: Count = ShareOfTokens(1.0),
    entropy: float = 0.001,
    mini_batches: int = 2,
) -> Method:
    """Reward 0.9 · accuracy + 0.1 · format. In a group without a success the `most` teachers of the highest 0.9 · (mean
    probability of the right answer's tokens after their reasoning) + 0.1 · format replace failures at random, with
    reward 1. A = R − mean; the policy's tokens: PPO's clip with dual clip; a teacher's: −A p / (p + gamma). Σ over all
    tokens of the update / max_length, which is not divided by the number of rollouts; an entropy bonus; no KL penalty.

    Where a group has a success it is GRPO without the std, unless `even_solved` lets teachers replace failures there
    too (`ampo@hybrid`: 0.3; `ampo@always`: 1). As in the release a teacher's answer counts as right whatever the
    verdict.

    Args:
        n: Rollouts per task (the group size).
        teachers: File of answers by task; empty: the world's solutions in its different styles are the teachers.
        known: Teachers per task at most.
        most: Failures per group that are replaced at most.
        even_solved: Probability of replacing failures in a group that has successes.
        format_share: Share of the format in the reward.
        layout: Pattern (regular expression) of the right format.
        gamma: Shaping constant of the off-policy term, a probability.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        max_length: The constant by which the token sum is divided: the run's limit of a turn, or a number.
        entropy: Coefficient of the entropy bonus.
        mini_batches: Optimiser steps per batch.
    """
    whole = Aggregate("token sum / length", length=max_length)
    method = Method(
        rollout=Repair(
            n=n, help=Teachers(teachers, known), when="some wrong" if even_solved else "all wrong", take="candidates"
        ),
        annotate=(MatchPatterns((("format", layout),)),),
        reward=(WeightedSum((("rollout.correct", 1 - format_share), ("rollout.format", format_share))),),
        keep=(InjectTeachers(most, format_share, even_solved), RouteByOrigin()),
        advantage=Normalize(scale="none", singleton="zero"),
        objective=(
            PolicyGradient(clip=Clip(clip, clip, dual=dual), where="token.own", aggregate=whole),
            Shaped(gamma, where="token.foreign", aggregate=whole),
        ),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.guided"),),
    )
    return method if entropy == 0 else method | Entropy(coefficient=entropy)
