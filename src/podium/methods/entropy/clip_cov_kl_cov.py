"""Clip-Cov and KL-Cov: entropy control by the covariance of log-probability and advantage."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import KeepMixed
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.shape import DropCovariant, SelectTokens
from podium.strategies import Sample

__all__ = ["clip_cov_kl_cov"]


@recipe(
    summary="Prevents entropy collapse by restraining tokens with high log-probability–advantage covariance.",
    citation="Cui et al. 2025, The Entropy Mechanism of RL, https://arxiv.org/abs/2505.22617",
    tags=("entropy collapse", "entropy", "token-level", "clipping", "kl penalty"),
    protocol=Protocol(
        model="Qwen2.5-7B",
        lr=5e-7,
        betas=(0.9, 0.999),
        weight_decay=0.0,
        warmup=0,
        schedule="constant",
        clip=1.0,
        tasks=256,
        max_tokens=8192,
        max_turns=1,
        source="PRIME-RL/Entropy-Mechanism-of-RL: recipe/dapo/7b_kl_cov.sh",
    ),
    home=Home("sums", level=2),
    presets={
        "kl-cov": {},
        "clip-cov": {"variant": "clip_cov", "home": Home("countdown")},
        "verl": {"share": 0.0002},
        "32b": {"share": 0.0002},
    },
)
def clip_cov_kl_cov(
    n: int = 8,
    variant: str = "kl_cov",
    share: float | None = None,
    kl: float = 1.0,
    low: float = 1.0,
    high: float = 5.0,
    clip: float = 1.0,
    max_rounds: int = 10,
    mini_batches: int = 8,
) -> Method:
    """c_t = (A_t − mean A)(log π_t − mean log π) over the trained tokens, with the current policy. Groups without a
    mixture of right and wrong answers are replaced; 8 updates per batch.

    - `kl_cov`: −A·r without any clip, plus kl · |log π − log π_old| on the share (0.002; verl 0.0002) with the largest
      c. With kl = 0 it is the unclipped policy gradient.
    - `clip_cov`: PPO's clip (authors' scripts: 1 on both sides); a random share (0.0002) of the tokens with low < c <
      high loses its loss but stays in the denominator. With an empty band it is PPO with GRPO's advantage.

    The distance to the old policy is 0 at the first of a batch's updates, and so is its gradient: with one update per
    batch KL-Cov is the plain policy gradient. Shares are of the tokens of an update, and at least one token is
    restrained: an update of 2,000 short answers' tokens restrains 4, where the authors' updates of some 250,000
    restrain 500; one of fewer than 500 tokens restrains more than the share says, 1.

    Args:
        n: Rollouts per task (the group size).
        variant: `kl_cov` or `clip_cov`.
        share: Share of the tokens that is restrained; None: the authors' value for the variant.
        kl: Coefficient of the KL term to the old policy (`kl_cov`).
        low: Lower end of the covariance band (`clip_cov`).
        high: Upper end of the covariance band (`clip_cov`).
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip] (`clip_cov`).
        max_rounds: Sampling rounds that may be spent on filling one batch; 0: no limit.
        mini_batches: Optimiser steps per batch.
    """
    method = Method(
        rollout=Sample(n=n),
        keep=(KeepMixed("rollout.correct", max_rounds=max_rounds),),
        advantage=Normalize(),
        updates=Updates(mini_batches=mini_batches),
    )
    if variant == "kl_cov":
        pull = KL("abs", anchor="old", where="token.selected", over="all", coefficient=kl)
        select = SelectTokens("covariance", 0.002 if share is None else share, rule="floor")
        return method | select | PolicyGradient() | pull
    if variant == "clip_cov":
        bounds = Clip(clip, clip)
        drop = DropCovariant(0.0002 if share is None else share, low=low, high=high, clip=bounds)
        return method | drop | PolicyGradient(clip=bounds)
    raise PodiumError(f"clip-cov-kl-cov: variant = {variant!r} is not 'kl_cov' or 'clip_cov'.")
