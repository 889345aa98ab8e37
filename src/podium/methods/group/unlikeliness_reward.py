"""TODO"""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Method
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import KeepMixed
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import RankDiscount
from podium.strategies import Sample

__all__ = ["unlikeliness_reward"]


@recipe(
    summary="A right answer earns less the likelier it was among the answers of its group.",
    citation="He et al. 2025, Rewarding the Unlikely: Lifting GRPO Beyond Distribution Sharpening, "
    "https://github.com/AndreHe02/rewarding-unlikely-release",
)
def unlikeliness_reward(
    n: int = 32,
    beta: float = 0.25,
    epochs: int = 2,
    kl: float = 0.1,
    clip: float = 0.2,
    skip_above: float | None = 20.0,
) -> Method:
    """r ← r · (1 − beta · rank / n), rank 0 for the rollout with the smallest mean log-probability; then GRPO with two
    epochs a batch, k3 to the reference, groups without signal dropped, steps with a gradient norm above 20 skipped.

    Groups that are all right keep a signal: likely answers are pushed down, rare ones up. beta = 0 is GRPO.
    """
    method = Method(
        rollout=Sample(n=n),
        reward=(RankDiscount(beta),),
        keep=(KeepMixed(top_up=False),),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(epochs=epochs, skip_above=skip_above),
    )
    return anchored(method, KL("k3", coefficient=kl))
