"""REINFORCE++: returns normalised over the whole batch, without groups."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize, Returns
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import TokenReward
from podium.parts.shape import Whiten
from podium.strategies import Sample

__all__ = ["reinforce_plus_plus"]


@recipe(
    summary="Critic-free returns with a token-level KL penalty, normalised over the batch instead of by group.",
    citation="Hu et al. 2025, REINFORCE++, https://arxiv.org/abs/2501.03262",
    extends="reinforce",
    tags=("policy gradient", "kl penalty", "clipping", "advantage estimation"),
    protocol=Protocol(
        model="OpenRLHF/Llama-3-8b-sft-mixture",
        lr=5e-7,
        betas=(0.9, 0.95),
        weight_decay=0.0,
        warmup=0.03,
        schedule="cosine",
        final=0.1,
        clip=1.0,
        tasks=1024,
        max_tokens=1024,
        max_turns=1,
        pool=100000,
        source="OpenRLHF/OpenRLHF, examples/scripts/train_reinforce_llama_ray.sh",
    ),
    home=Home(level=2, tasks=64),
    presets={
        "paper": {"kl": 1e-4},
        "baseline": {"baseline": True, "n": 8},
        "verl": {"given": "pass", "n": 8, "kl": 0.001, "mini_batches": 1},
    },
)
def reinforce_plus_plus(
    n: int = 1,
    baseline: bool = False,
    kl: float = 0.01,
    gamma: float = 1.0,
    given: str = "stop",
    clip: float = 0.2,
    mini_batches: int = 8,
) -> Method:
    """r_t = [t last] · R − kl · (log π_old − log π_ref); G_t = r_t + gamma · G_{t+1}, stopped at tokens that the world
    wrote; A = (G − mean) / sqrt(var + 1e-8) over the tokens of the batch; PPO's clip; 8 updates per batch.

    With one group and equal lengths it is proportional to GRPO. `reinforce-plus-plus@verl` lets returns pass over the
    world's tokens instead, as verl does since 0.9. `reinforce-plus-plus@baseline` subtracts the group's mean reward
    first and whitens the difference over tokens.

    Args:
        n: Rollouts per task; 8 for the preset `baseline`, which needs groups.
        baseline: Subtract the group's mean reward first; the KL penalty is then left out.
        kl: Coefficient of the KL penalty in the token rewards; 0 loads no reference model.
        gamma: Discount factor per token.
        given: What tokens of the world do to the return: `stop` it or `pass` it on.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        mini_batches: Optimiser steps per batch.
    """
    advantage = Normalize(scale="none") if baseline else Returns(gamma=gamma, given=given)
    method = Method(
        rollout=Sample(n=n),
        reward=() if baseline else (TokenReward(beta=kl),),
        advantage=advantage,
        shape=(Whiten(),),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
    )
    return method if baseline or kl == 0 else method | Role("ref")
