"""TODO"""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.method import Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import PolicyGradient
from podium.parts.reward import SequenceKL
from podium.strategies import Sample

__all__ = ["rloo"]


@recipe(
    summary="The baseline of a rollout is the mean reward of the others of its group.",
    citation="Ahmadian et al. 2024, Back to Basics, https://arxiv.org/abs/2402.14740",
)
def rloo(n: int = 4, kl: float = 0.05) -> Method:
    """A_i = r_i − mean of the other rollouts' rewards = G/(G − 1) · (r_i − mean); REINFORCE on whole answers; the
    distance to the reference, summed over the answer, is subtracted from the reward.

    Without the factor G/(G − 1) it is Dr. GRPO's advantage.
    """
    method = Method(
        rollout=Sample(n=n),
        advantage=Normalize(centre="leave_one_out", scale="none"),
        objective=(PolicyGradient(ratio="none", aggregate=Aggregate("token sum, rollout mean")),),
    )
    return method if kl == 0 else method | SequenceKL(kl) | Role("ref")
