"""TODO"""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.term import Aggregate
from podium.method import Method
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import NodeDifference, PositionDifference
from podium.parts.keep import KeepMixed
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.shape import HoldToShortest
from podium.strategies import Grow

__all__ = ["rose"]


@recipe(
    summary="Rollouts fork where likely next tokens mean different things; credit from fork to fork, less for length.",
    citation="ROSE: Reinforced Efficient Reasoning via Semantically Diverse Exploration, "
    "https://github.com/ZiqiZhao1/ROSE-rl",
    presets={"tree": {"credit": "prefix"}},
)
def rose(
    n: int = 8,
    restart: float = 0.5,
    metric: str = "cosine-entropy",
    candidates: int = 20,
    length_exponent: float = 0.0,
    credit: str = "position",
    max_length: int = 3000,
    clip: float = 0.2,
    kl: float = 0.001,
    max_rounds: int = 8,
) -> Method:
    """Each rollout begins anew with probability `restart`, or forks from the place with the largest −F · H among all so
    far; A = V(next fork) − V(last fork), V(k) the mean reward of the group's rollouts with a fork at k, at the end
    R − V. Right answers longer than the shortest lose |A| · (1 − ((L_s − k*)/(L − k*))^λ) after what they share.

    restart = 1 with λ = 0 is Dr. GRPO. As in the release V is keyed by the position alone: forks at one place of
    different texts are mixed; `rose@tree` keys it by the text, and so what two answers share. λ is 0 in the release.
    """
    if credit not in ("position", "prefix"):
        raise PodiumError(f"rose: credit = {credit!r} is not 'position' or 'prefix'.")
    by_place = PositionDifference(length_exponent)
    aggregate = Aggregate(f"token sum / {max_length}, rollout mean")
    method = Method(
        rollout=Grow(n=n, restart=restart, metric=metric, candidates=candidates),
        keep=(KeepMixed(max_rounds=max_rounds),),
        advantage=by_place if credit == "position" else NodeDifference(values="leaves"),
        shape=(HoldToShortest(length_exponent),) if credit == "prefix" and length_exponent else (),
        objective=(PolicyGradient(clip=Clip(clip, clip), aggregate=aggregate),),
        metric=(ReportMean("rollout.fork"),),
    )
    return anchored(method, KL("k3", coefficient=kl))
