"""Debate reward: debaters that learn by self-play which evidence justifies a decision."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import AlignedReturns
from podium.parts.objective import Clip, Entropy, PolicyGradient
from podium.strategies import Choose

__all__ = ["debate_reward"]


@recipe(
    summary="Two debaters reveal evidence for rival decisions; decisions that win before a judge earn a bonus.",
    citation="Sukovic and Radanovic 2024, Reward Design for Justifiable Sequential Decision-Making, "
    "https://github.com/aleksa-sukovic/iclr2024-reward-design-for-justifiable-rl",
    tags=("self-play", "debate", "chooser", "reward design", "offline learning", "justification"),
    presets={"paper": {}},
    protocol=Protocol(model="networks of a few layers on patients of MIMIC-III", source="the release: argo/"),
    home=Home("evidence", level=1, iterations=30, tasks=32, model="podium/chooser"),
)
def debate_reward(n: int = 8, clip: float = 0.2, entropy: float = 0.003, mini_batches: int = 4) -> Method:
    """One network plays both debaters and reveals one piece of evidence a turn, until a judge decides: +1 and −1. A_t =
    G_t − the mean of G_t over the other debates of the task, of the same debater at the same turn; PPO's clip, and an
    entropy bonus.

    What debates are for is the reward of another policy, which `podium lab debate-reward` trains offline: r = (1 − λ) ·
    15 · r_env + λ · 10 · 1[J(action) > J(baseline)], where J is the judge's score after a greedy debate. A decision
    like the baseline's ties and earns nothing; λ = 1 drops the reward of the environment. Of the release are this
    reward, the judge (Bradley-Terry, with random evidence revealed), 4 or 6 pieces of evidence, self-play of one
    network with masked actions, and double Q-learning over 3 steps. Ours are the means of a group in place of PPO's
    value head, n, the clip range and the bonus for entropy, and simulated patients in place of MIMIC-III.

    Args:
        n: Debates per task (the group size).
        clip: Clip range of the ratio of a choice.
        entropy: Coefficient of the entropy bonus.
        mini_batches: Optimiser steps per batch.
    """
    return Method(
        rollout=Choose(n=n),
        advantage=AlignedReturns(beta=0.0, gamma=1.0),
        objective=(PolicyGradient(clip=Clip(clip, clip)), Entropy(coefficient=entropy)),
        updates=Updates(mini_batches=mini_batches),
    )
