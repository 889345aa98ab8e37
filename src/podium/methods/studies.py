"""Studies: control runs, and metrics that show what reinforcement does to a policy."""

from __future__ import annotations

from podium.advantage import Normalize
from podium.core.method import Method
from podium.evaluation.clipping import ClipBias
from podium.evaluation.entropies import EntropyPair
from podium.methods.catalogue import recipe
from podium.methods.group import grpo
from podium.objective import Clip, PolicyGradient, Updates
from podium.reward import RandomReward
from podium.rollout import Sample

__all__ = ["clip_bias_spurious", "invisible_leash"]


@recipe(
    "invisible-leash",
    summary="Does training reach new answers, or only sharpen old ones? Token entropy against answer entropy.",
    citation="Wu et al. 2025, The Invisible Leash: Why RLVR May Not Escape Its Origin, https://arxiv.org/abs/2507.14843",
    family="study",
    kind="metric",
)
def invisible_leash(n: int = 8, clip: float = 0.2, kl: float = 0.0) -> Method:
    """GRPO that reports, for each task, the entropy of its tokens and of its answers: the first may rise while the
    second falls. `podium.evaluation.support_change` compares what a trained model solves with what it did before:
    tasks preserved, expanded, shrunk; retention P/(P + S), discovery E/(P + E), net change (E − S)/(P + E + S).

    On-policy steps never give probability to an answer that had none.
    """
    return grpo(n=n, clip=clip, kl=kl).with_(name="invisible-leash", evaluate=(EntropyPair(),))


@recipe(
    "clip-bias-spurious",
    summary="A control run: rewards from a coin, and what clipping alone does to the objective and the entropy.",
    citation="Exploration v.s. Exploitation: Rethinking RLVR through Clipping, Entropy, and Spurious Reward, 2025",
    family="study",
)
def clip_bias_spurious(probability: float = 0.5, n: int = 8, clip: float = 0.2, mini_batches: int = 4) -> Method:
    """r ~ Bernoulli(probability) whatever the answer; GRPO's advantage with the population std; PPO's clip; no KL.
    Each update reports the share of tokens clipped from above and below, and the bias that this gives the surrogate.

    What is learnt here is not learnt from rewards. A wide clip has no bias: with clip = 0.99 it is hardly ever reached.
    """
    return Method(
        "clip-bias-spurious",
        rollout=Sample(n=n),
        reward=(RandomReward(probability),),
        advantage=Normalize(unbiased=False),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
        evaluate=(ClipBias(clip, clip),),
    )
