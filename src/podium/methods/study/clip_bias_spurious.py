"""TODO"""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.clip_bias import ClipBias
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import RandomReward
from podium.strategies import Sample

__all__ = ["clip_bias_spurious"]


@recipe(
    summary="A control run: rewards from a coin, and what clipping alone does to the objective and the entropy.",
    citation="Exploration v.s. Exploitation: Rethinking RLVR through Clipping, Entropy, and Spurious Reward, 2025",
)
def clip_bias_spurious(probability: float = 0.5, n: int = 8, clip: float = 0.2, mini_batches: int = 4) -> Method:
    """r ~ Bernoulli(probability) whatever the answer; GRPO's advantage with the population std; PPO's clip; no KL.
    Each update reports the share of tokens clipped from above and below, and the bias that this gives the surrogate.

    What is learnt here is not learnt from rewards. A wide clip has no bias: with clip = 0.99 it is hardly ever reached.
    """
    return Method(
        rollout=Sample(n=n),
        reward=(RandomReward(probability),),
        advantage=Normalize(unbiased=False),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ClipBias(clip, clip),),
    )
