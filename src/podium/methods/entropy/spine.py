"""TODO"""

from __future__ import annotations

from podium.method import Method
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
    summary="Without labels: update the uncertain fifth of each answer, and keep its entropy inside a band.",
    citation="SPINE: Token-Selective Test-Time RL with Entropy-Band Regularization, https://github.com/JianghaoWu/SPINE",
)
def spine(
    n: int = 8,
    share: float = 0.2,
    low: float = 0.1,
    high: float = 0.5,
    band: float = 0.1,
    kl: float = 0.0,
    clip: float = 0.2,
) -> Method:
    """r = [answer = the most frequent one]; GRPO's advantage; PPO's clip, k3 to the reference and
    band · ((H − H_high)⁺ + (H_low − H)⁺), all over the ⌈share⌉ of each rollout's tokens with the largest entropy, whose
    own 10 % and 50 % quantiles are H_low and H_high.

    share = 1 and band = 0 is TTRL with every rollout trained. The weight of the band is ours: the paper's is not known.
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
        metric=(VoteQuality(),),
    )
    return anchored(method, KL("k3", where=SELECTED, coefficient=kl))
