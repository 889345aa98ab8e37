"""TODO"""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Method
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.shape import DropPivot, Rescale
from podium.strategies import Sample

__all__ = ["mc_grpo"]


@recipe(
    summary="The median of one rollout more is the baseline; the median rollout itself is not trained.",
    citation="MC-GRPO, https://github.com/lotusroot-kim/MC-GRPO",
    presets={"gsm8k": {"compensate": True}, "std": {"scale": "std", "epsilon": 1e-6}},
)
def mc_grpo(
    n: int = 8,
    scale: str = "lower_mad",
    epsilon: float = 1e-3,
    compensate: bool = False,
    kl: float = 0.04,
    clip: float = 0.2,
) -> Method:
    """n + 1 rollouts; A_i = (r_i − median) / (MAD + 1e-3), MAD the median of |r − median|; one rollout at the median is
    left out of the update. Two epochs a batch, k3 to the reference.

    On binary rewards MAD is 0 wherever most rollouts agree, so the others get ±1000, which clipping the gradient
    absorbs; `mc-grpo@std` divides by the group's std instead, and scale = "none" not at all. `mc-grpo@gsm8k` multiplies
    advantages that are not 0 by (n + 1) / their number, as one of the two released trainers does.
    """
    method = Method(
        rollout=Sample(n=n + 1),
        advantage=Normalize(centre="lower_median", scale=scale, epsilon=epsilon, singleton="zero"),
        shape=(*((Rescale("credited", key=("group",)),) if compensate else ()), DropPivot()),
        objective=(PolicyGradient(clip=Clip(clip, clip), aggregate=Aggregate("token mean, rollout mean")),),
        metric=(ReportMean("rollout.keep.pivot"),),
        updates=Updates(epochs=2),
    )
    anchor = KL("k3", coefficient=kl, aggregate=Aggregate("token mean, rollout mean"))
    return anchored(method, anchor)
