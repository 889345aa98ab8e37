"""PEAR: phase entropy aware reward for efficient reasoning."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.method import Home, Method, Protocol, Role
from podium.methods._taught import taught
from podium.methods.base.grpo import grpo
from podium.methods.catalogue import recipe
from podium.parts.annotate import MarkPattern
from podium.parts.reward import PhaseEntropy
from podium.protocols.tagged import ThinkTags
from podium.strategies import Draw, Sample

__all__ = ["pear"]


@recipe(
    summary="Efficient reasoning: correct answers lose reward for uncertain thinking, which shortens it.",
    citation="PEAR: Phase Entropy Aware Reward for Efficient Reasoning, https://github.com/iNLP-Lab/PEAR",
    protocol=Protocol(
        model="Qwen3-4B", lr=1e-6, tasks=128, pool=7473, source="notes on the paper; https://github.com/iNLP-Lab/PEAR"
    ),
    home=Home("sums", level=1),
    tags=("overthinking", "short reasoning", "entropy", "reward shaping", "efficiency"),
    presets={"paper": {"imitate": 0}},
)
def pear(
    alpha: float = 1.0,
    score: float = 1.0,
    otherwise: float = 0.0,
    marker: str = "</think>",
    n: int = 8,
    imitate: Count = ShareOfRun(0.34),
    clip: float = 0.2,
    kl: float = 0.04,
) -> Method:
    """R = min(1, score − max(0, H_think − alpha · H_answer)) if right, else `otherwise`, with the mean entropies before
    and after the marker; then GRPO.

    Answers are asked for as `<think>…</think>` and then the answer. Models that do not think like this are taught first
    (`imitate`); the authors' did. Where both parts are equally uncertain and alpha ≥ 1 it is GRPO on the verdict.
    Without a marker the whole text is thinking.

    Args:
        alpha: Weight of the answer's entropy, which offsets that of the thinking.
        score: Reward of a right answer before the deduction.
        otherwise: Reward of a wrong answer.
        marker: Pattern (regular expression) that ends the thinking part.
        n: Rollouts per task (the group size).
        imitate: Iterations that imitate the world's solutions in this format, before everything else; 0: none.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
    """
    draw = Draw(format=ThinkTags())
    method = grpo(n=n, clip=clip, kl=kl) | Sample(n=n, draw=draw)
    if kl:
        method = method | Role("ref", source="phase")
    return taught(method | MarkPattern(marker) | PhaseEntropy(alpha, score, otherwise), imitate, draw, lr=3e-6)
