"""TODO"""

from __future__ import annotations

from podium.method import Method
from podium.methods.base.grpo import grpo
from podium.methods.catalogue import recipe
from podium.parts.annotate import MarkPattern
from podium.parts.reward import PhaseEntropy

__all__ = ["pear"]


@recipe(
    summary="Right answers lose reward for thinking that is more uncertain than the answer; length shrinks by itself.",
    citation="PEAR: Phase Entropy Aware Reward for Efficient Reasoning, https://github.com/iNLP-Lab/PEAR",
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
    method = grpo(n=n, clip=clip, kl=kl)
    return method | MarkPattern(marker) | PhaseEntropy(alpha, score, otherwise)
