"""TODO"""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, Likelihood, PolicyGradient
from podium.parts.reward import ContinuationReward
from podium.strategies import Continuations

__all__ = ["refine"]


@recipe(
    summary="From unsure places of a text the model writes a few tokens and is rewarded by how near it comes to them.",
    citation="ReFINE: Reinforced Fast Weights with Next-Sequence Prediction, https://github.com/princetonvisualai/ReFINE",
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
    likeness of hidden states (cosine), of tokens (binary) or both (hybrid); A = (R − mean)/(std + 1e-6) over the places
    of the text, or over the n continuations of a place if n > 1. Loss = sft · (−log π of the text) + rl · PPO's clip.

    rl = 0 is plain language-model training. The texts are a world's tasks with their solutions. Places keep `margin`
    tokens from both ends; where the paper's 20 leave nothing, a quarter of the text.
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
