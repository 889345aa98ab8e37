"""ReMax: REINFORCE with the greedy rollout as its baseline."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.method import Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Returns
from podium.parts.annotate import GreedyBaseline
from podium.parts.objective import PolicyGradient
from podium.parts.reward import TokenReward
from podium.strategies import Sample

__all__ = ["remax"]


@recipe(
    summary="REINFORCE with the reward of the greedy answer to the same prompt as its baseline.",
    citation="Li et al. 2023, ReMax, https://arxiv.org/abs/2310.10505",
    tags=("policy gradient", "baseline", "variance reduction", "single rollout"),
)
def remax(n: int = 1, kl: float = 0.0) -> Method:
    """A_t = Σ_{s ≥ t} r_s − b, with b the reward of the task's greedy rollout, which is not trained.

    Adding a constant to all rewards of a task changes nothing. With the group mean in place of b it is Dr. GRPO's
    advantage.

    Args:
        n: Sampled rollouts per task, in addition to the greedy one.
        kl: Coefficient of the KL penalty in the token rewards; 0 loads no reference model.
    """
    method = Method(
        rollout=Sample(n=n, greedy_baseline=True),
        annotate=(GreedyBaseline(),),
        reward=(TokenReward(beta=kl),),
        advantage=Returns(baseline="group.baseline"),
        objective=(PolicyGradient(ratio="none", aggregate=Aggregate("token sum, rollout mean")),),
    )
    return method if kl == 0 else method | Role("ref")
