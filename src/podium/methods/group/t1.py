"""TODO"""

from __future__ import annotations

from podium.method import Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import MarkDegenerate
from podium.parts.objective import Entropy, PolicyGradient
from podium.parts.reward import OverrideReward
from podium.parts.shape import CentredKL
from podium.strategies import Sample

__all__ = ["t1"]


@recipe(
    summary="64 warm samples a task, an entropy bonus, a penalty for broken text, an anchor that follows the policy.",
    citation="Hou et al. 2025, T1: RL and Inference Scaling, https://arxiv.org/abs/2501.11651",
)
def t1(
    n: int = 64,
    temperature: float = 1.2,
    penalty: float = -1.0,
    kl: float = 2e-4,
    entropy: float = 1e-3,
    decay: float = 0.995,
) -> Method:
    """r = −1 for an answer that was cut off, repeats itself or is garbled, else 1 or 0; A_i = r_i − mean of the others;
    A_t = A_i − kl · (d_t − d̄), d = log π − log π_anchor; plain policy gradient on A_t and a bonus on the entropy. The
    anchor is a moving average of the policy.

    The paper's weight of the entropy, decay of the anchor and temperature are not known: these are guesses. decay = 1
    is a fixed reference. kl = entropy = 0 is RLOO with the penalty; adding a constant to all d changes nothing. How
    accuracy grows with the tokens that a thought may have is what `podium eval RUN --thinking` measures.
    """
    return Method(
        rollout=Sample(n=n, temperature=temperature),
        annotate=(MarkDegenerate(),),
        reward=(OverrideReward(value=penalty),),
        advantage=Normalize(centre="leave_one_out", scale="none"),
        shape=(CentredKL(kl),) if kl else (),
        objective=(PolicyGradient(ratio="none"), *((Entropy(coefficient=entropy),) if entropy else ())),
        roles=(Role("anchor", source="policy", decay=decay),) if kl else (),
    )
