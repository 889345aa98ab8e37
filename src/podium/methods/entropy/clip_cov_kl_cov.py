"""Clip-Cov and KL-Cov: entropy control by the covariance of log-probability and advantage."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.shape import DropCovariant, SelectTokens
from podium.strategies import Sample

__all__ = ["clip_cov_kl_cov"]


@recipe(
    summary="Prevents entropy collapse by restraining tokens with high log-probability–advantage covariance.",
    citation="Cui et al. 2025, The Entropy Mechanism of RL, https://arxiv.org/abs/2505.22617",
    tags=("entropy collapse", "entropy", "token-level", "clipping", "kl penalty"),
    presets={"kl-cov": {}, "clip-cov": {"variant": "clip_cov"}, "verl": {"share": 0.0002}},
)
def clip_cov_kl_cov(
    n: int = 8,
    variant: str = "kl_cov",
    share: float | None = None,
    kl: float = 1.0,
    low: float = 1.0,
    high: float = 5.0,
    clip: float = 1.0,
) -> Method:
    """c_t = (A_t − mean A)(log π_t − mean log π) over the trained tokens, with the current policy.

    - `kl_cov`: −A·r without any clip, plus kl · |log π − log π_old| on the share (0.002; verl 0.0002) with the largest
      c. With kl = 0 it is the unclipped policy gradient.
    - `clip_cov`: PPO's clip (authors' scripts: 1 on both sides); a random share (0.0002) of the tokens with low < c <
      high loses its loss but stays in the denominator. With an empty band it is PPO with GRPO's advantage.

    Args:
        n: Rollouts per task (the group size).
        variant: `kl_cov` or `clip_cov`.
        share: Share of the tokens that is restrained; None: the authors' value for the variant.
        kl: Coefficient of the KL term to the old policy (`kl_cov`).
        low: Lower end of the covariance band (`clip_cov`).
        high: Upper end of the covariance band (`clip_cov`).
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip] (`clip_cov`).
    """
    method = Method(rollout=Sample(n=n), advantage=Normalize())
    if variant == "kl_cov":
        pull = KL("abs", anchor="old", where="token.selected", over="all", coefficient=kl)
        select = SelectTokens("covariance", 0.002 if share is None else share, rule="floor")
        return method | select | PolicyGradient() | pull
    if variant == "clip_cov":
        bounds = Clip(clip, clip)
        drop = DropCovariant(0.0002 if share is None else share, low=low, high=high, clip=bounds)
        return method | drop | PolicyGradient(clip=bounds)
    raise PodiumError(f"clip-cov-kl-cov: variant = {variant!r} is not 'kl_cov' or 'clip_cov'.")
