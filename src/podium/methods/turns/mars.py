"""MARS: multi-agent reasoning through self-play in strategic games."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import SeatReturns
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.strategies import Sample

__all__ = ["mars"]


@recipe(
    summary="Multi-agent self-play: turn-level rewards-to-go, normalised separately for each game and agent.",
    citation="MARS: Reinforcing Multi-Agent Reasoning of LLMs through Self-Play, https://github.com/thu-nics/MARS",
    tags=("self-play", "multi-agent", "multi-turn", "turn-level", "credit assignment"),
    presets={
        "release": {},
        "paper": {"reward_centre": "none", "whiten_rewards": False, "whiten_advantages": False, "mini_batches": 48},
    },
    protocol=Protocol(
        model="Qwen3-4B",
        lr=1e-6,
        betas=(0.9, 0.95),
        weight_decay=0.05,
        warmup=10,
        schedule="cosine",
        clip=1.0,
        tasks=384,
        iterations=200,
        max_tokens=4096,
        max_turns=50,
        source="MARS examples/multi_games/agentic_val_multi_games_selfplay.yaml",
    ),
    home=Home("vault", level=1, iterations=8, tasks=8, model="podium/tiny2"),
)
def mars(
    n: int = 8,
    game: str | None = "rollout.domain",
    agent: str | None = "turn.agent",
    reward_centre: str = "mean",
    whiten_rewards: bool = True,
    gamma: float = 1.0,
    advantage_centre: str = "mean",
    whiten_advantages: bool = True,
    kl: float = 0.2,
    mini_batches: int = 8,
) -> Method:
    """A turn's credit is the sum of rewards from it on, with rewards centred over the turns of their game and agent,
    and returns over the distinct values of their agent, both whitened over tokens. Clip 0.2, dual clip 1.4; the losses
    are sums over the tokens of each rollout, and means over rollouts.

    One agent, one turn and `mean` alone is REINFORCE with the batch mean as baseline. The release centres rewards and
    returns; `mars@paper` sums first and centres the returns of each agent. The release's distinct values include
    rounding differences, which are merged here. Its reward of 0.05 for each well-formed turn is the world's to pay:
    `form=0.05` in the games of OpenSpiel, where a turn without a legal move loses at once.

    Args:
        n: Rollouts per task (the group size).
        game: Column that names the game; None: one game.
        agent: Column that names the agent: `turn.agent` where several act in an episode, each of which is then paid its
            own rewards alone, or `rollout.agent`; None: one agent, in a world without several.
        reward_centre: How rewards are centred: `none`, `mean`, `mean_std` or `asymmetric` (held within [−1, 3]).
        whiten_rewards: Whiten the rewards over tokens.
        gamma: Discount factor per token, the world's included.
        advantage_centre: How returns are centred: `none`, `mean` or `mean_std`.
        whiten_advantages: Whiten the returns over tokens.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch, on whole rollouts: steps of 8, so 48 for the authors' 384 rollouts.
    """
    advantage = SeatReturns(game, agent, reward_centre, whiten_rewards, gamma, advantage_centre, whiten_advantages)
    summed = Aggregate("token sum, rollout mean")
    gradient = PolicyGradient(clip=Clip(0.2, 0.2, dual=1.4), aggregate=summed)
    updates = Updates(mini_batches=mini_batches, unit="rollout")
    method = Method(rollout=Sample(n=n), advantage=advantage, objective=(gradient,), updates=updates)
    return method if kl == 0 else method | KL("k3", coefficient=kl, aggregate=summed) | Role("ref")
