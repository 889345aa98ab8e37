"""SPINE: token-selective test-time reinforcement learning with an entropy band."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods._shared import SELECTED, anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric import VoteQuality
from podium.parts.objective import KL, Clip, Entropy, PolicyGradient
from podium.parts.reward import Majority
from podium.parts.shape import EntropyBand, SelectTokens
from podium.strategies import Sample

__all__ = ["spine"]


@recipe(
    summary="Test-time RL by majority vote on high-entropy tokens only, with their entropy kept inside a band.",
    citation="SPINE: Token-Selective Test-Time RL with Entropy-Band Regularization, https://github.com/JianghaoWu/SPINE",
    extends="ttrl",
    tags=("test-time training", "label-free", "majority vote", "entropy", "token-level"),
    protocol=Protocol(
        model="Qwen2.5-Math-1.5B", max_turns=1, source="JianghaoWu/SPINE by a public survey note on arXiv 2511.17938"
    ),
    home=Home("sums", level=1),
)
def spine(
    n: int = 8,
    share: float = 0.2,
    low: float = 0.1,
    high: float = 0.5,
    band: float = 0.1,
    kl: float = 0.0,
    clip: float = 0.2,
    mini_batches: int = 4,
) -> Method:
    """r = [answer = the most frequent one]; GRPO's advantage; PPO's clip, k3 to the reference and band · ((H − H_high)⁺
    + (H_low − H)⁺), all over the ⌈share⌉ of each rollout's tokens with the largest entropy, whose 10 % and 50 %
    quantiles are H_low and H_high.

    share = 1 and band = 0 is TTRL with every rollout trained. The weight of the band and the 4 updates per batch are
    ours: the paper's are not known.

    Args:
        n: Rollouts per task (the group size).
        share: Share of each rollout's tokens, the most uncertain, that is trained.
        low: Quantile of the selected tokens' entropy that is the lower end of the band.
        high: Quantile that is the upper end of the band.
        band: Coefficient of the band penalty.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        mini_batches: Optimiser steps per batch.
    """
    method = Method(
        rollout=Sample(n=n),
        reward=(Majority(),),
        advantage=Normalize(singleton="zero"),
        shape=(SelectTokens("entropy", share, scope="rollout", rule="ceil"), EntropyBand(low, high)),
        objective=(
            PolicyGradient(clip=Clip(clip, clip), where=SELECTED),
            Entropy("rollout.band.low", "rollout.band.high", where=SELECTED, coefficient=band),
        ),
        updates=Updates(mini_batches=mini_batches),
        metric=(VoteQuality(),),
    )
    return anchored(method, KL("k3", where=SELECTED, coefficient=kl))
