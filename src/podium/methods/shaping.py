"""Bounded changes of rewards and advantages by entropy, perplexity, place and phrase."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.method import Method
from podium.core.watch import Watch
from podium.evaluation.entropies import EntropyProfile, SemanticEntropy
from podium.methods.catalogue import recipe
from podium.methods.group import grpo
from podium.reward import MarkPattern, MarkPhrases, PhaseEntropy
from podium.shape import KeepSign, PerplexityFactor, PositionBonus, Tilt

__all__ = ["entropy_exchange_shaping", "hicra", "pear", "two_stage_negative"]

# Phrases by which a writer announces a plan; a list mined from one's own right solutions serves better.
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
    "hicra",
    summary="More credit and less blame for the tokens by which a solution plans.",
    citation="HICRA: Emergent Hierarchical Reasoning in LLMs, https://github.com/TIGER-AI-Lab/Hierarchical-Reasoner",
    family="group",
)
def hicra(
    phrases: tuple[str, ...] = PLANS, alpha: float = 0.2, n: int = 8, clip: float = 0.2, kl: float = 0.0
) -> Method:
    """A + alpha · |A| at tokens that belong to one of the phrases: 1.2 A where the answer is right, 0.8 A where it is
    wrong. A is GRPO's. The paper's phrases are the most frequent clusters of 3 to 5 words in right solutions.

    alpha = 0, or a text without any phrase, is GRPO. For alpha < 1 no sign changes.
    """
    method = grpo(n=n, clip=clip, kl=kl).with_(name="hicra")
    method = method | MarkPhrases(tuple(phrases)) | Tilt(alpha)
    return method.with_(evaluate=(Watch("token.planning"), SemanticEntropy(tuple(phrases))))


@recipe(
    "pear",
    summary="Right answers lose reward for thinking that is more uncertain than the answer; length shrinks by itself.",
    citation="PEAR: Phase Entropy Aware Reward for Efficient Reasoning, https://github.com/iNLP-Lab/PEAR",
    family="entropy",
)
def pear(
    alpha: float = 1.0,
    score: float = 1.0,
    otherwise: float = 0.0,
    marker: str = "</think>",
    n: int = 8,
    clip: float = 0.2,
    kl: float = 0.04,
) -> Method:
    """R = min(1, score − max(0, H_think − alpha · H_answer)) if right, else `otherwise`, with the mean entropies before
    and after the marker (a regular expression); then GRPO.

    Where both parts are equally uncertain and alpha ≥ 1 it is GRPO on the verdict. Without a marker all is thinking.
    """
    method = grpo(n=n, clip=clip, kl=kl).with_(name="pear")
    return method | MarkPattern(marker) | PhaseEntropy(alpha, score, otherwise)


@recipe(
    "entropy-exchange-shaping",
    summary="On the plateau, likely rollouts (or late tokens) teach most: their advantages are made larger.",
    citation="Decomposing the Entropy-Performance Exchange, 2025",
    family="entropy",
    presets={"perplexity": {}, "position": {"variant": "position"}},
)
def entropy_exchange_shaping(
    variant: str = "perplexity",
    alpha: float = 0.01,
    gamma: float = 0.1,
    slope: float = 1.0,
    n: int = 8,
    clip: float = 0.2,
    kl: float = 0.0,
) -> Method:
    """`perplexity`: A (1 − alpha · w), with w the rollout's log-perplexity standardised over the batch.
    `position`: A + sign(A) · gamma · σ(slope · t/L) at the t-th of L tokens. A is GRPO's.

    alpha = 0 or gamma = 0 is GRPO. The paper shapes on the plateau alone: `Phases(grpo().until(Plateau("entropy")),
    entropy_exchange_shaping())`.
    """
    parts = {"perplexity": PerplexityFactor(alpha), "position": PositionBonus(gamma, slope)}
    if variant not in parts:
        raise PodiumError(f"entropy-exchange-shaping: variant = {variant!r} is not one of {', '.join(parts)}.")
    method = grpo(n=n, clip=clip, kl=kl).with_(name="entropy-exchange-shaping", evaluate=(EntropyProfile(),))
    return method | parts[variant]


@recipe(
    "two-stage-negative",
    summary="Punish what fails and leave what succeeds alone, so that rare good answers are not crowded out.",
    citation="The Debate on RLVR Reasoning Capability Boundary: Shrinkage, Expansion, or Both?, 2025",
    family="group",
    presets={"grpo-n": {}, "gspo-n": {"ratio": "sequence", "clip_low": 3e-4, "clip_high": 4e-4}},
)
def two_stage_negative(
    sign: str = "negative",
    ratio: str = "token",
    n: int = 8,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    kl: float = 0.0,
) -> Method:
    """GRPO's advantage where it is negative, else 0; every token stays in the denominator. `@gspo-n`: with the ratio of
    whole sequences.

    The same filter with `sign="positive"` trains successes alone; its switch `shape.KeepSign.on` takes a schedule, and
    at 0 it is GRPO. In long runs entropy grows without bound: watch length and pass@1.
    """
    method = grpo(n=n, clip=clip_low, kl=kl).with_(name="two-stage-negative")
    method = method.set("objective.PolicyGradient.ratio", ratio).set("objective.PolicyGradient.clip.high", clip_high)
    return (method | KeepSign(sign)).with_(evaluate=(EntropyProfile(),))
