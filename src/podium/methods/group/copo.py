"""COPO: consistency-aware policy optimisation."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.shape import ConsistencyBlend
from podium.strategies import Sample

__all__ = ["copo"]


FINAL = Protocol(
    model="Qwen2.5-7B-Instruct",
    lr=1e-6,
    betas=(0.9, 0.999),
    weight_decay=0.01,
    warmup=0,
    schedule="constant",
    clip=1.0,
    tasks=512,
    iterations=70,
    max_tokens=2048,
    source="hijih/copo-code verl/run_copo.sh",
)


@recipe(
    summary="Where a group's answers agree (zero advantage), compares the task with the rest of the batch instead.",
    citation="COPO: Consistency-Aware Policy Optimization, https://github.com/hijih/copo-code",
    tags=("zero-variance groups", "self-consistency", "advantage estimation", "entropy"),
    protocol=FINAL,
    home=Home("sums", level=2),
    presets={
        "3b": {
            "gamma": 20.0,
            "rho": 1.5,
            "kl": 0.001,
            "protocol": FINAL.replace(
                model="Qwen2.5-3B-Instruct", source="hijih/copo-code verl/run_3b_onlySoft_k20b1.sh"
            ),
        },
        "formula": {"gamma": 20.0, "rho": 1.5, "base": 2.718281828459045, "unrewarded": "blend"},
    },
)
def copo(
    n: int = 6,
    gamma: float = 5.0,
    rho: float = 1.0,
    base: float = 2.0,
    blend: str = "losses",
    unrewarded: str = "global",
    clip: float = 0.2,
    dual: float = 3.0,
    kl: float = 0.0,
    mini_batches: int = 16,
) -> Method:
    """loss = w · L(A) + (1 − w) · L(A_global): A is GRPO's, A_global is the group's mean reward standardised over the
    groups, w = sigmoid(gamma · (H − rho)) with H the entropy of the group's answers in bits, and w = 0 for rollouts
    whose reward is 0; both losses use PPO's clip on the same importance ratio; mean over the tokens of a rollout, then
    over rollouts.

    With gamma · (H − rho) → ∞ it is GRPO, with → −∞ REINFORCE on tasks. The defaults are those of the final script; the
    run with 3B has gamma 20, rho 1.5 and a KL penalty (`copo@3b`). The paper's formula says neither that rollouts
    without reward take the global loss alone nor the logarithm's base; `copo@formula` reads it with natural logarithms.

    Args:
        n: Rollouts per task (the group size).
        gamma: Steepness of the switch from the global to the local advantage.
        rho: Answer entropy at which both weigh the same.
        base: Base of the logarithm in H.
        blend: `losses` sums two losses; `advantages` mixes the advantages in one, which is the same where their signs
            agree.
        unrewarded: What rollouts with a reward of 0 take: the `global` loss alone, or the `blend`.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
    """
    by_sequence = Aggregate("token mean, rollout mean")
    clipped = PolicyGradient(clip=Clip(clip, clip, dual=dual), aggregate=by_sequence)
    terms = (clipped, clipped.replace(advantage="advantage.global")) if blend == "losses" else (clipped,)
    method = Method(
        rollout=Sample(n=n),
        advantage=Normalize(singleton="zero"),
        shape=(ConsistencyBlend(gamma, rho, base=base, blend=blend, unrewarded=unrewarded),),
        objective=terms,
        updates=Updates(mini_batches=mini_batches),
    )
    return anchored(method, KL("k3", coefficient=kl, aggregate=by_sequence))
