"""Perplexity and position shaping: decomposing the entropy-performance exchange."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.method import Method
from podium.methods.base.grpo import grpo
from podium.methods.catalogue import recipe
from podium.parts.metric.entropies import EntropyProfile
from podium.parts.shape import PerplexityFactor, PositionBonus

__all__ = ["entropy_exchange_shaping"]


@recipe(
    summary="Reward shaping for the plateau stage: larger advantages for low-perplexity rollouts or late tokens.",
    citation="Decomposing the Entropy-Performance Exchange, 2025",
    tags=("entropy", "reward shaping", "token-level", "exploration"),
    presets={"perplexity": {}, "position": {"variant": "position"}},
)
def entropy_exchange_shaping(
    variant: str = "perplexity",
    alpha: float = 0.01,
    gamma: float = 0.1,
    slope: float = 1.0,
    n: int = 8,
    clip: float = 0.2,
    kl: float = 0.0,
) -> Method:
    """`perplexity`: A (1 − alpha · w), with w the rollout's log-perplexity standardised over the batch. `position`: A +
    sign(A) · gamma · σ(slope · t/L) at the t-th of L tokens. A is GRPO's.

    alpha = 0 or gamma = 0 is GRPO. The paper shapes on the plateau alone: `Phases(grpo().until(Plateau("entropy")),
    entropy_exchange_shaping())`.

    Args:
        variant: `perplexity` or `position`.
        alpha: Strength of the perplexity factor.
        gamma: Strength of the position bonus.
        slope: Steepness of the position bonus.
        n: Rollouts per task (the group size).
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
    """
    parts = {"perplexity": PerplexityFactor(alpha), "position": PositionBonus(gamma, slope)}
    if variant not in parts:
        raise PodiumError(f"entropy-exchange-shaping: variant = {variant!r} is not one of {', '.join(parts)}.")
    method = grpo(n=n, clip=clip, kl=kl).with_(metric=(EntropyProfile(),))
    return method | parts[variant]
