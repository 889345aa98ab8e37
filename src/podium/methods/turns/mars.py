"""TODO"""

from __future__ import annotations

from podium.method import Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import SeatReturns
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.strategies import Sample

__all__ = ["mars"]


@recipe(
    summary="Rewards of turns, centred apart for each game and seat; their sums to go are the credit.",
    citation="MARS: Reinforcing Multi-Agent Reasoning of LLMs through Self-Play, https://github.com/thu-nics/MARS",
    presets={"release": {}, "paper": {"reward_centre": "none", "whiten_rewards": False, "whiten_advantages": False}},
)
def mars(
    n: int = 8,
    game: str | None = "rollout.domain",
    agent: str | None = None,
    reward_centre: str = "mean",
    whiten_rewards: bool = True,
    gamma: float = 1.0,
    advantage_centre: str = "mean",
    whiten_advantages: bool = True,
    kl: float = 0.2,
) -> Method:
    """A turn's credit: the sum of rewards from it on, rewards centred over the turns of their game and agent, returns
    over the distinct values of their agent, both whitened over tokens. Clip 0.2, dual clip 1.4.

    The release centres rewards and returns; `mars@paper` sums first and centres the returns of each agent. Without an
    `agent` there is one for all. The release's distinct values include differences of rounding, which are merged here.
    One agent, one turn, `mean` alone: REINFORCE with the mean of the batch as baseline.
    """
    advantage = SeatReturns(game, agent, reward_centre, whiten_rewards, gamma, advantage_centre, whiten_advantages)
    gradient = PolicyGradient(clip=Clip(0.2, 0.2, dual=1.4))
    method = Method(rollout=Sample(n=n), advantage=advantage, objective=(gradient,))
    return method if kl == 0 else method | KL("k3", coefficient=kl) | Role("ref")
