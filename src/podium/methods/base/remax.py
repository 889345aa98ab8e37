"""ReMax: REINFORCE with the greedy rollout as its baseline."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Returns
from podium.parts.annotate import GreedyBaseline
from podium.parts.objective import PolicyGradient
from podium.parts.reward import LogRatio, TokenReward
from podium.strategies import Draw, Sample

__all__ = ["remax"]

BASELINE, PENALTY = "group.baseline", "token.reward.kl"


@recipe(
    summary="REINFORCE with the reward of the greedy answer to the same prompt as its baseline.",
    citation="Li et al. 2023, ReMax, https://arxiv.org/abs/2310.10505",
    extends="reinforce",
    tags=("policy gradient", "baseline", "variance reduction", "single rollout"),
    protocol=Protocol(
        model="Llama-2-7B after SFT",
        lr=1e-6,
        betas=(0.9, 0.95),
        weight_decay=0.1,
        warmup=0,
        schedule="cosine",
        clip=1.0,
        max_tokens=256,
        max_turns=1,
        source="liziniu/ReMax, step3_rlhf_finetuning/training_scripts/llama2/run_llama2_7b.sh: 1 task per GPU",
    ),
    home=Home(level=1, tasks=64),
    presets={
        "paper": {"top_p": 0.9},
        "verl": {"n": 4, "kl": 0.001, "gamma": 1.0, "limit": None, "sum_kl": True, "mini_batches": 4},
    },
)
def remax(
    n: int = 1,
    kl: float = 0.05,
    gamma: float = 0.99,
    limit: float | None = 5.0,
    sum_kl: bool = False,
    top_p: float = 1.0,
    aggregate: str = "token mean",
    mini_batches: int = 1,
) -> Method:
    """A_t = gamma^(tokens to the end) · clip(R − b, ±limit) − kl · (log π_old − log π_ref)_t, with b the reward of the
    task's greedy rollout, which is not trained; loss = token mean of −A · log π.

    This is the authors' code: the outcome is discounted, and the KL penalty of a token counts at that token alone.
    `remax@verl` (0.9) neither discounts nor bounds, and every token is credited with the penalties after it; gamma = 1
    and kl = 0 give A = R − b. Adding a constant to all rewards of a task changes nothing. With the group mean in place
    of b it is Dr. GRPO's advantage.

    Args:
        n: Sampled rollouts per task, in addition to the greedy one.
        kl: Coefficient of the KL penalty in the token rewards; 0 loads no reference model.
        gamma: Discount factor of the outcome per token.
        limit: R − b is held within ± this; None: b is subtracted from the return instead, without a bound.
        sum_kl: Credit a token with the KL penalties of all later tokens as well, discounted by gamma.
        top_p: Probability mass of the likeliest tokens that is sampled from.
        aggregate: How the losses of tokens become one number, as the path of an `Aggregate`.
        mini_batches: Optimiser steps per batch.
    """
    apart, bounded = kl != 0 and not sum_kl, limit is not None
    outcome = TokenReward(beta=kl if sum_kl else 0.0, baseline=BASELINE if bounded else None, limit=limit)
    method = Method(
        rollout=Sample(n=n, greedy_baseline=True, draw=Draw(top_p=top_p)),
        annotate=(GreedyBaseline(),),
        reward=(outcome, *((LogRatio("old", "ref", -kl, into=PENALTY),) if apart else ())),
        advantage=Returns(gamma=gamma, baseline=None if bounded else BASELINE, immediate=PENALTY if apart else None),
        objective=(PolicyGradient(ratio="none", aggregate=Aggregate(aggregate)),),
        updates=Updates(mini_batches=mini_batches),
    )
    return method if kl == 0 else method | Role("ref")
