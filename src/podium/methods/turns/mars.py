"""MARS: multi-agent reasoning through self-play in strategic games."""

from __future__ import annotations

from podium.method import Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import SeatReturns
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.strategies import Sample

__all__ = ["mars"]


@recipe(
    summary="Multi-agent self-play: turn-level rewards-to-go, normalised separately for each game and agent.",
    citation="MARS: Reinforcing Multi-Agent Reasoning of LLMs through Self-Play, https://github.com/thu-nics/MARS",
    tags=("self-play", "multi-agent", "multi-turn", "turn-level", "credit assignment"),
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
    """A turn's credit is the sum of rewards from it on, with rewards centred over the turns of their game and agent,
    and returns over the distinct values of their agent, both whitened over tokens. Clip 0.2, dual clip 1.4.

    One agent, one turn and `mean` alone is REINFORCE with the batch mean as baseline. The release centres rewards and
    returns; `mars@paper` sums first and centres the returns of each agent. The release's distinct values include
    rounding differences, which are merged here.

    Args:
        n: Rollouts per task (the group size).
        game: Column that names the game; None: one game.
        agent: Column that names the agent: `turn.agent` where several act in an episode, each of which is then paid its
            own rewards alone, or `rollout.agent`; None: one agent.
        reward_centre: How rewards are centred: `none`, `mean`, `mean_std` or `asymmetric` (held within [−1, 3]).
        whiten_rewards: Whiten the rewards over tokens.
        gamma: Discount factor per token, the world's included.
        advantage_centre: How returns are centred: `none`, `mean` or `mean_std`.
        whiten_advantages: Whiten the returns over tokens.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
    """
    advantage = SeatReturns(game, agent, reward_centre, whiten_rewards, gamma, advantage_centre, whiten_advantages)
    gradient = PolicyGradient(clip=Clip(0.2, 0.2, dual=1.4))
    method = Method(rollout=Sample(n=n), advantage=advantage, objective=(gradient,))
    return method if kl == 0 else method | KL("k3", coefficient=kl) | Role("ref")
