"""TODO"""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import SelfCertainty, StatisticFactor, TokenPenalty
from podium.strategies import Sample

__all__ = ["ucas"]


@recipe(
    summary="More credit to right answers that were unsure, more blame to sure wrong ones, a deduction on sure tokens.",
    citation="Uncertainty-aware Advantage Shaping (UCAS), https://github.com/xvolcano02/UCAS",
    presets={"mean": {"over": "mean"}},
)
def ucas(
    n: int = 16,
    positive: float = 0.25,
    negative: float = 0.35,
    penalty: float = 0.05,
    over: str = "sum",
    scale: str = "std",
    singleton: str = "raw",
    clip: float = 0.2,
) -> Method:
    """C = Σ_t (logsumexp − mean of the logits); A ← A · e^{−0.25 z(C)} where A > 0, A · e^{0.35 z(C)} elsewhere, z over
    the group; then A_t ← A − 0.05 · (min-max of the tokens' raw logits in the batch), at least 0 where A > 0. PPO's
    clip, token mean, no KL. All of it is constant: nothing flows back.

    The release sums C, so that length counts as certainty; `ucas@mean` averages it. `scale="none"` drops both stds.
    A group of one keeps its raw C in the release; `singleton="zero"` leaves its advantage as it is.
    positive = negative = penalty = 0 is GRPO with a token mean. Groups of equal rewards get the deduction alone.
    """
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(scale=scale),
        shape=(
            SelfCertainty(over),
            StatisticFactor(scale=scale, positive=positive, negative=negative, singleton=singleton),
            TokenPenalty(weight=penalty),
        ),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
    )
