"""GRPO: group relative policy optimisation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import KL, Clip, DivergenceMask, PolicyGradient
from podium.parts.objective.clip import TrustRegion
from podium.parts.shape import MarkNear
from podium.strategies import Sample

__all__ = ["grpo"]


TOKEN_MEAN = Aggregate("token mean")


SEQUENCE_MEAN = Aggregate("token mean, rollout mean")


# One name, different numbers: how each code base normalises the rewards of a group, what its trust region is, and how
# it aggregates the loss.
GRPO: Mapping[str, Mapping[str, Any]] = {
    "paper": {"n": 64, "mini_batches": 1},
    "verl": {"n": 5, "kl": 0.001, "kl_limit": 10.0, "dual": 3.0, "aggregate": TOKEN_MEAN},
    "trl": {
        "kl": 0.0,
        "advantage": Normalize(epsilon=1e-4, singleton="error"),
        "aggregate": TOKEN_MEAN,
        "mini_batches": 1,
    },
    "openrlhf": {"kl": 0.0, "advantage": Normalize(epsilon=1e-9, singleton="error"), "aggregate": TOKEN_MEAN},
    "nemo": {
        "kl": 0.01,
        "advantage": Normalize(centre="leave_one_out", scale="std_of_others", zero_scale="skip", singleton="zero"),
        "aggregate": TOKEN_MEAN,
    },
    "prime-rl": {
        "kl": 0.0,
        "advantage": Normalize(scale="none"),
        "region": DivergenceMask(low=0.2, high=0.2, cap=None),
        "behaviour": "sampler",
        "drift": 0.001,
        "aggregate": TOKEN_MEAN,
        "mini_batches": 8,
    },
    "slime": {"kl": 0.0, "clip_high": 0.28, "mini_batches": 1},
    "skyrl": {"n": 5, "kl": 0.001, "aggregate": TOKEN_MEAN},
    "deepseek-v3.2": {"kl": 0.001, "advantage": Normalize(scale="none"), "corrected": True, "near": 1e-4},
}


@recipe(
    summary="Group-relative advantages without a critic: reward minus the group's mean, divided by its std.",
    citation="Shao et al. 2024, DeepSeekMath, https://arxiv.org/abs/2402.03300",
    tags=("group-relative", "baseline", "clipping", "kl penalty"),
    protocol=Protocol(
        model="DeepSeekMath-Instruct 7B",
        lr=1e-6,
        max_tokens=1024,
        source="DeepSeekMath, section 4.2. It does not say whether its batch of 1024 counts questions or outputs",
    ),
    home=Home(level=2),
    presets=GRPO,
)
def grpo(
    n: int = 8,
    advantage: Normalize = Normalize(),
    clip: float = 0.2,
    clip_high: float | None = None,
    dual: float | None = None,
    region: TrustRegion | None = None,
    behaviour: str = "old",
    kl: float = 0.04,
    kl_limit: float | None = None,
    corrected: bool = False,
    drift: float = 0.0,
    near: float | None = None,
    aggregate: Aggregate = SEQUENCE_MEAN,
    mini_batches: int = 4,
) -> Method:
    """A_i = (r_i − mean) / (std + 1e-6) over the rollouts of a group, on every token of rollout i; PPO's clipped
    surrogate with a token-level importance ratio; a k3 KL penalty to the reference in the loss; mean over the tokens of
    a rollout, then over rollouts.

    The paper's run (`grpo@paper`) has 64 rollouts per question and a single update per batch, at which every ratio is 1
    and the clip cannot act; it prints no clip range. Ours are the clip range 0.2, the 1e-6 and the unbiased std, which
    verl has as well, and the 4 mini-batches of plain `grpo`, as in the examples of verl and SkyRL.

    The word GRPO means different numbers in different code bases. For rewards [1, 0, 0, 0] the success gets 1.5 in
    `grpo@verl` (0.9), `grpo@trl` (1.9), `grpo@slime`, `grpo@skyrl` (both of August 2026) and `grpo@openrlhf`, up to
    epsilon; 1.0 in `grpo@nemo` (leave-one-out, undivided because the other rewards do not vary; its failures get
    −0.577); 0.75 in `grpo@prime-rl` (of August 2026) and `grpo@deepseek-v3.2`, which do not divide.
    `grpo@prime-rl` masks tokens whose probability moved by more than 0.2 from the sampler's, in place of the clip, and
    holds log-ratios near 0; its sampler lags by up to 8 updates, for which 8 mini-batches stand here.
    `grpo@deepseek-v3.2` weighs the KL penalty by the ratio, and leaves out rollouts with A < 0 that have become less
    likely by more than `near` per token. The report gives neither number: 0.001 is that of DeepSeek-R1, 1e-4 slime's.
    Its keeping of expert routes and of top-p masks has no counterpart.

    Args:
        n: Rollouts per task (the group size).
        advantage: How rewards are normalised within a group.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        clip_high: Upper end of the clip range, 1 + clip_high; None: clip.
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|; None: no dual clip.
        region: Another trust region in place of the clip; None: the clip.
        behaviour: The policy that ratios compare with: `old`, or `sampler`.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        kl_limit: The k3 estimate of a token is held within ± this; None: no limit.
        corrected: Multiply the KL penalty by the importance ratio, so that it stays unbiased over several updates.
        drift: Coefficient of the squared log-ratio, a penalty for moving away from the behaviour policy.
        near: Leave out rollouts with a negative advantage whose log-ratio is below −near on average; None: keep all.
        aggregate: How the losses of tokens become one number, for the surrogate and the penalties alike.
        mini_batches: Optimiser steps per batch.
    """
    trust = Clip(clip, clip if clip_high is None else clip_high, dual=dual) if region is None else region
    surrogate = PolicyGradient(clip=trust, behaviour=behaviour, aggregate=aggregate)
    if near is not None:
        surrogate = surrogate.replace(where="rollout.near", over="all")
    method = Method(
        rollout=Sample(n=n),
        advantage=advantage,
        shape=() if near is None else (MarkNear(near, behaviour),),
        objective=(surrogate,),
        updates=Updates(mini_batches=mini_batches),
    )
    if drift != 0:
        held = KL("k2", anchor=behaviour, coefficient=2 * drift, aggregate=aggregate)  # k2 is half of the square
        return method.replace(objective=(surrogate, held))
    return anchored(method, KL("k3", limit=kl_limit, corrected=corrected, coefficient=kl, aggregate=aggregate))
