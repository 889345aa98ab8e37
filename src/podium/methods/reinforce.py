"""REINFORCE and its variants without groups."""

from __future__ import annotations

from podium.advantage import Normalize, Returns
from podium.core.method import Method, Role
from podium.methods.catalogue import recipe
from podium.objective import Aggregate, Clip, PolicyGradient
from podium.reward import GreedyBaseline, TokenReward
from podium.rollout import Sample
from podium.shape import Whiten

__all__ = ["reinforce", "reinforce_plus_plus", "remax"]


@recipe(
    "reinforce",
    summary="Raise the log-probability of every sampled token in proportion to its advantage.",
    citation="Williams 1992, Simple statistical gradient-following algorithms",
)
def reinforce(n: int = 1, aggregate: str = "token sum, rollout mean") -> Method:
    """loss = −A · log π · w, with w = 1 or a detached importance weight (a `weight` column); A is the reward.

    On-policy its gradient is PPO's. With `advantage=Normalize()` it is on-policy GRPO without clip and KL.
    """
    return Method(
        "reinforce",
        rollout=Sample(n=n),
        advantage=Normalize(centre="none", scale="none"),
        objective=(PolicyGradient(ratio="none", aggregate=Aggregate(aggregate)),),
    )


@recipe(
    "reinforce-plus-plus",
    summary="Returns with a token-level KL penalty, standardised over all tokens of the batch instead of by group.",
    citation="Hu et al. 2025, REINFORCE++, https://arxiv.org/abs/2501.03262",
    presets={"baseline": {"baseline": True, "n": 8}, "verl": {"given": "pass"}},
)
def reinforce_plus_plus(
    n: int = 1,
    baseline: bool = False,
    kl: float = 0.01,
    gamma: float = 1.0,
    given: str = "stop",
    clip: float = 0.2,
) -> Method:
    """r_t = [t last] · R − kl · (log π_old − log π_ref); G_t = r_t + gamma · G_{t+1}, which a token given by the world
    stops; A = (G − mean) / sqrt(var + 1e-8) over the tokens of the batch; PPO's clip.

    `reinforce-plus-plus@verl` lets returns pass over the world's tokens instead, as verl does since 0.9.
    `reinforce-plus-plus@baseline` subtracts the group's mean reward first and whitens that over the tokens. With one
    group and equal lengths it is proportional to GRPO.
    """
    advantage = Normalize(scale="none") if baseline else Returns(gamma=gamma, given=given)
    method = Method(
        "reinforce-plus-plus",
        rollout=Sample(n=n),
        reward=() if baseline else (TokenReward(beta=kl),),
        advantage=advantage,
        shape=(Whiten(),),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
    )
    return method if baseline or kl == 0 else method | Role("ref")


@recipe(
    "remax",
    summary="REINFORCE with the reward of the greedy answer to the same prompt as baseline.",
    citation="Li et al. 2023, ReMax, https://arxiv.org/abs/2310.10505",
)
def remax(n: int = 1, kl: float = 0.0) -> Method:
    """A_t = Σ_{s ≥ t} r_s − b, with b the reward of the task's greedy rollout, which is not trained.

    Adding a constant to all rewards of a task changes nothing. With the group mean in place of b it is Dr. GRPO's
    advantage.
    """
    method = Method(
        "remax",
        rollout=Sample(n=n, greedy_baseline=True),
        reward=(GreedyBaseline(), TokenReward(beta=kl)),
        advantage=Returns(baseline="group.baseline"),
        objective=(PolicyGradient(ratio="none", aggregate=Aggregate("token sum, rollout mean")),),
    )
    return method if kl == 0 else method | Role("ref")
