"""HICRA: hierarchy-aware credit assignment to planning tokens."""

from __future__ import annotations

from podium.method import Method
from podium.methods.base.grpo import grpo
from podium.methods.catalogue import recipe
from podium.parts.annotate import MarkPhrases
from podium.parts.metric.entropies import SemanticEntropy
from podium.parts.metric.report_mean import ReportMean
from podium.parts.shape import Tilt

__all__ = ["hicra"]


# Phrases that announce a plan; a list mined from correct solutions of the policy serves better.
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
)
def hicra(
    phrases: tuple[str, ...] = PLANS, alpha: float = 0.2, n: int = 8, clip: float = 0.2, kl: float = 0.0
) -> Method:
    """A + alpha · |A| at tokens that belong to one of the phrases: 1.2 A where the answer is right, 0.8 A where it is
    wrong. A is GRPO's. The paper's phrases are the most frequent clusters of 3 to 5 words in right solutions.

    alpha = 0, or a text without any phrase, is GRPO. For alpha < 1 no sign changes.

    Args:
        phrases: Phrases that mark planning.
        alpha: How much planning tokens are favoured.
        n: Rollouts per task (the group size).
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
    """
    method = grpo(n=n, clip=clip, kl=kl)
    method = method | MarkPhrases(tuple(phrases)) | Tilt(alpha)
    return method.with_(metric=(ReportMean("token.planning"), SemanticEntropy(tuple(phrases))))
