"""ACE: asymmetric confidence penalties for overconfident errors."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import OverconfidentErrors
from podium.strategies import Sample

__all__ = ["ace"]


@recipe(
    summary="Penalises overconfident errors: wrong answers that RL has made likelier get larger negative advantages.",
    citation="ACE: Overconfident Errors Need Stronger Correction: Asymmetric Confidence Penalties for RL",
    tags=("overconfidence", "negative samples", "reward shaping", "pass@k"),
    protocol=Protocol(
        model="Qwen2.5-Math-7B",
        source="arXiv 2602.21420, abstract",
    ),
    home=Home("sums", level=2),
)
def ace(
    n: int = 8,
    alpha: float = 1.0,
    normalized: bool = False,
    link: str = "softplus",
    clip: float = 0.2,
    mini_batches: int = 4,
) -> Method:
    """A ← A · (1 + alpha · softplus(c)) where A < 0, with c = Σ_t (log π_old − log π_ref) over the answer; A is GRPO's.

    alpha = 0 is GRPO. At the first step c = 0, so that errors weigh 1 + alpha · ln 2. It can follow any rollout-level
    advantage: `methods.dapo() | OverconfidentErrors() | Role("ref")`. The paper's alpha is not
    known, nor the number of its optimiser steps per batch.

    Args:
        n: Rollouts per task (the group size).
        alpha: Strength of the penalty.
        normalized: Take the mean of the log-ratio over tokens instead of its sum.
        link: `softplus`, or `relu` as in the paper's ablation.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        mini_batches: Optimiser steps per batch; the number is ours.
    """
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(singleton="zero"),
        shape=(OverconfidentErrors(alpha, normalized=normalized, link=link),),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
        roles=(Role("ref"),),
    )
