"""TODO"""

from __future__ import annotations

from podium.method import Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize, Returns
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import TokenReward
from podium.parts.shape import Whiten
from podium.strategies import Sample

__all__ = ["reinforce_plus_plus"]


@recipe(
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
        rollout=Sample(n=n),
        reward=() if baseline else (TokenReward(beta=kl),),
        advantage=advantage,
        shape=(Whiten(),),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
    )
    return method if baseline or kl == 0 else method | Role("ref")
