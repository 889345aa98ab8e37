"""ReFINE: next-sequence prediction by reinforcement on raw text."""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, Likelihood, PolicyGradient
from podium.parts.reward import ContinuationReward
from podium.strategies import Continuations

__all__ = ["refine"]


@recipe(
    summary="Next-sequence prediction RL on raw text: short continuations rewarded by similarity to the truth.",
    citation="ReFINE: Reinforced Fast Weights with Next-Sequence Prediction, https://github.com/princetonvisualai/ReFINE",
    tags=("label-free", "hidden states", "entropy", "sft", "long context", "test-time training"),
    presets={"post": {"reward": "hybrid"}, "test-time": {"reward": "binary", "rl": 0.4}},
)
def refine(
    k: int = 5,
    chunks: int = 8,
    n: int = 1,
    reward: str = "cosine",
    sft: float = 1.0,
    rl: float = 0.2,
    places: str = "entropy",
    margin: int = 20,
    clip: float = 0.2,
    dual: float = 3.0,
    epsilon: float = 1e-6,
    style: str = "long",
) -> Method:
    """One place in each of the `chunks` parts of a text, drawn by the smoothed entropy; `k` tokens from there; R by the
    similarity of hidden states (cosine), of tokens (binary) or both (hybrid); A = (R − mean)/(std + 1e-6) over the
    places of the text, or over the n continuations of a place if n > 1. Loss = sft · (−log π of the text) + rl · PPO's
    clip.

    rl = 0 is plain language-model training. The texts are a world's tasks with their solutions. Where the paper's
    margin of 20 leaves nothing, it is a quarter of the text.

    Args:
        k: Tokens of a continuation.
        chunks: Parts of a text, with one place in each.
        n: Continuations per place.
        reward: `cosine`, `binary` or `hybrid`.
        sft: Coefficient of the likelihood of the text.
        rl: Coefficient of the policy-gradient loss.
        places: How places are chosen: `entropy` (drawn), `uniform`, or the `argmax` or `argmin` of the entropy.
        margin: Tokens between a place and either end of the text.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        epsilon: Added to the standard deviation.
        style: Which of the world's solutions make the texts, by their style.
    """
    key = ("group",) if n == 1 else ("group", "rollout.position")
    return Method(
        rollout=Continuations(k=k, chunks=chunks, times=n, positions=places, margin=margin, style=style),
        reward=(ContinuationReward(reward),),
        advantage=Normalize(key=key, epsilon=epsilon),
        objective=(
            Likelihood(where="rollout.demonstration", coefficient=sft),
            PolicyGradient(clip=Clip(clip, clip, dual=dual), where="rollout.sampled", coefficient=rl),
        ),
    )
