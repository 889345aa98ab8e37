"""T1: scaling exploration in reinforcement learning for reasoning."""

from __future__ import annotations

from podium.method import Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import MarkDegenerate
from podium.parts.objective import Entropy, PolicyGradient
from podium.parts.reward import OverrideReward
from podium.parts.shape import CentredKL
from podium.strategies import Draw, Sample

__all__ = ["t1"]


@recipe(
    summary="Scales exploration: 64 high-temperature samples, an entropy bonus and a moving (EMA) KL anchor.",
    citation="Hou et al. 2025, T1: RL and Inference Scaling, https://arxiv.org/abs/2501.11651",
    tags=("exploration", "entropy", "rollout budget", "kl penalty", "negative samples"),
)
def t1(
    n: int = 64,
    temperature: float = 1.2,
    penalty: float = -1.0,
    kl: float = 2e-4,
    entropy: float = 1e-3,
    decay: float = 0.995,
) -> Method:
    """r = −1 for an answer that was truncated, repeats itself or is garbled, else 1 or 0; A_i = r_i − mean of the
    others; A_t = A_i − kl · (d_t − d̄), d = log π − log π_anchor; plain policy gradient on A_t and an entropy bonus.
    The anchor is a moving average of the policy.

    kl = entropy = 0 is RLOO with the penalty; adding a constant to all d changes nothing. The paper's entropy weight,
    decay of the anchor and temperature are not known: the defaults are guesses. `podium eval RUN --thinking` measures
    how accuracy grows with the thinking budget.

    Args:
        n: Rollouts per task (the group size).
        temperature: Sampling temperature.
        penalty: Reward of a degenerate answer.
        kl: Coefficient of the centred KL penalty in the advantages; 0: no anchor.
        entropy: Coefficient of the entropy bonus.
        decay: Decay of the anchor's moving average per iteration; 1: a fixed reference.
    """
    return Method(
        rollout=Sample(n=n, draw=Draw(temperature=temperature)),
        annotate=(MarkDegenerate(),),
        reward=(OverrideReward(value=penalty),),
        advantage=Normalize(centre="leave_one_out", scale="none"),
        shape=(CentredKL(kl),) if kl else (),
        objective=(PolicyGradient(ratio="none"), *((Entropy(coefficient=entropy),) if entropy else ())),
        roles=(Role("anchor", source="policy", decay=decay),) if kl else (),
    )
