"""IGPO: information gain-based policy optimisation for search agents."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import GainReturns
from podium.parts.objective import KL, Clip, Entropy, PolicyGradient
from podium.parts.reward import AnswerGain
from podium.strategies import Sample

__all__ = ["igpo"]


@recipe(
    summary="Turn-level information-gain reward: how much a turn raises the probability of the correct answer.",
    citation="Information Gain-based Policy Optimization, https://github.com/GuoqingWang1/IGPO",
    tags=("information gain", "turn-level", "process reward", "multi-turn", "agents", "search"),
    presets={"separate": {"over": "apart"}, "centred": {"scale": "none"}, "paper": {"mini_batches": 16}},
    protocol=Protocol(
        model="Qwen2.5-7B-Instruct",
        lr=1e-6,
        betas=(0.9, 0.999),
        warmup=0,
        schedule="constant",
        clip=1.0,
        tasks=32,
        max_tokens=2000,
        max_turns=10,
        source="IGPO policy_optimization.sh, ppo_trainer.yaml",
    ),
    home=Home("clarify", level=1, iterations=8, tasks=4),
)
def igpo(
    n: int = 16,
    gamma: float = 1.0,
    over: str = "joint",
    scale: str = "std",
    gain: float = 1.0,
    outcome: float = 1.0,
    clip: float = 0.2,
    kl: float = 0.001,
    entropy: float = 0.001,
    mini_batches: int = 16,
) -> Method:
    """r_t = p_{t+1} − p_t for turns before the last, p the probability of the right answer in place of a turn (the
    geometric mean over its tokens); r_T the outcome; A_t = Σ gamma^k r'_{t+k}, with r' = (r − mean)/(std + 1e-6) over
    all turns of the group, or over outcomes and gains separately. PPO's clip and a KL penalty of 0.001.

    Rollouts of one turn have no gain: it is GRPO with the population std. The release finds the ends of turns where a
    reward is not 0, so that a gain of exactly 0 merges two turns; here turns are the world's. Its first revision cut
    rewards-to-go at every observation, without std: the formula here is the paper's.

    Args:
        n: Rollouts per task (the group size).
        gamma: Discount factor per turn.
        over: Normalise outcomes and gains together (`joint`) or separately (`apart`).
        scale: `std` or `none`.
        gain: Weight of the information gains.
        outcome: Weight of the outcome.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference.
        entropy: Coefficient of the entropy bonus, which is on by default in this code base.
        mini_batches: Optimiser steps per batch, on whole rollouts: 512 of them in sixteen steps of 32, as released.
    """
    return Method(
        rollout=Sample(n=n),
        reward=(AnswerGain(gain, outcome),),
        advantage=GainReturns(gamma, over, scale),
        objective=(
            PolicyGradient(clip=Clip(clip, clip, dual=3.0)),
            KL("k3", coefficient=kl),
            *((Entropy(coefficient=entropy),) if entropy else ()),
        ),
        updates=Updates(mini_batches=mini_batches, unit="rollout"),
        roles=(Role("ref"),),
    )
