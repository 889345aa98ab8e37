"""ProGRPO: advantage re-weighting by generative probabilities."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import ConfidenceShift
from podium.strategies import Sample

__all__ = ["progrpo"]


@recipe(
    summary="Shifts advantage from answers the policy is overconfident in to rarer ones, for exploration.",
    citation="ProGRPO: Back to Basics: Revisiting Exploration in RL for LLM Reasoning via Generative Probabilities",
    tags=("exploration", "overconfidence", "entropy collapse", "advantage estimation"),
    protocol=Protocol(
        model="Qwen2.5-7B",
        source="arXiv 2602.05281",
    ),
    home=Home("sums", level=2),
    presets={"whole-prompt": {"prompt_share": 1.0}, "mixed-only": {"off": "flat"}},
)
def progrpo(
    n: int = 8,
    alpha: float = 0.3,
    share: float = 0.2,
    prompt_share: float = 0.2,
    off: str = "all wrong",
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    mini_batches: int = 4,
) -> Method:
    """A ← A + alpha · (c(prompt) − c(answer)) unless all rewards of the group are 0; A is GRPO's, c = exp of the mean
    log-probability of the `share` least likely tokens, at least one. Clip 0.2/0.28, token mean, no KL penalty.

    alpha = 0 is GRPO with a token mean. The paper's alpha is not known; 0.3 is a guess, as are the 4 optimiser steps
    per batch. Readings differ on two points: whether c(prompt) takes all tokens (`progrpo@whole-prompt`), and whether
    all-correct groups are left unchanged too (`progrpo@mixed-only`).

    Args:
        n: Rollouts per task (the group size).
        alpha: Weight of the confidence difference.
        share: Share of an answer's tokens, the least likely ones, that its confidence is taken over.
        prompt_share: The same for the prompt; 1: all tokens.
        off: Groups without the shift: `all wrong` (rewards of 0) or `flat` (all correct, too).
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        mini_batches: Optimiser steps per batch; the number is ours.
    """
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(singleton="zero"),
        shape=(ConfidenceShift(alpha, share=share, prompt_share=prompt_share, off=off),),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high)),),
        updates=Updates(mini_batches=mini_batches),
    )
