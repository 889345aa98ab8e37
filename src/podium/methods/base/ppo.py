"""PPO: proximal policy optimisation with GAE and a critic."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Role
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.parts.advantage import GAE
from podium.parts.objective import Clip, PolicyGradient, ValueLoss
from podium.parts.reward import TokenReward
from podium.parts.shape import Whiten
from podium.strategies import Sample

__all__ = ["ppo"]


@recipe(
    summary="Actor-critic: per-token advantages (GAE) from a learned value function, with a clipped ratio.",
    citation="Schulman et al. 2017, Proximal Policy Optimization, https://arxiv.org/abs/1707.06347",
    tags=("critic", "value function", "clipping", "trust region", "credit assignment", "kl penalty"),
    protocol=ADAMW.replace(
        model="deepseek-ai/deepseek-llm-7b-chat",
        lr=1e-6,
        tasks=1024,
        iterations=105,
        max_tokens=512,
        max_turns=1,
        pool=7473,
        source="volcengine/verl, examples/ppo_trainer/run_deepseek7b_llm.sh (15 epochs of GSM8K)",
    ),
    home=Home(level=2, tasks=64),
)
def ppo(
    n: int = 1,
    gamma: float = 1.0,
    lam: float = 1.0,
    clip: float = 0.2,
    dual: float = 3.0,
    value_clip: float = 0.5,
    kl: float = 0.0,
    mini_batches: int = 4,
) -> Method:
    """δ_t = r_t + gamma · V_{t+1} − V_t; A_t = δ_t + gamma · lam · A_{t+1}, whitened over the tokens of the batch;
    max(−A·r, −A·clip(r, 1 ± 0.2)), at most 3·|A| where A < 0; the critic regresses on A + V with a clip of 0.5.
    4 updates per batch.

    gamma = lam = 1 with a reward at the end gives R − V_t; with the group's statistics in place of V it is GRPO.
    PPO's authors trained no language models: lengths, rates, gamma and lam are those of verl's example (0.9), in which
    the critic learns ten times as fast as the policy. In the original, for control, gamma is 0.99, lam 0.95, and a
    batch is passed over 3 to 10 times.

    Args:
        n: Rollouts per task; a critic needs no group.
        gamma: Discount factor per token.
        lam: GAE's λ: 1 is the Monte-Carlo return, 0 the one-step temporal difference.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        value_clip: The critic's values may move by this much per batch, as PPO clips ratios.
        kl: Coefficient of the KL penalty in the token rewards; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
    """
    method = Method(
        rollout=Sample(n=n),
        reward=(TokenReward(beta=kl),),
        advantage=GAE(gamma=gamma, lam=lam),
        shape=(Whiten(),),
        objective=(PolicyGradient(clip=Clip(clip, clip, dual=dual)), ValueLoss(value_clip)),
        updates=Updates(mini_batches=mini_batches),
        roles=(Role("critic", lr_ratio=10.0),),
    )
    return method if kl == 0 else method | Role("ref")
