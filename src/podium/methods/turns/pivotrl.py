"""TODO"""

from __future__ import annotations

from podium.method import Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import KeepPivots
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.strategies import NextTurn

__all__ = ["pivotrl"]


@recipe(
    summary="One turn at a time from inside demonstrations, at the turns where actions differ and most of them fail.",
    citation="PivotRL: High Accuracy Agentic Post-Training at Low Compute Cost",
)
def pivotrl(
    n: int = 8, below: float = 0.75, style: str = "short", clip: float = 0.2, kl: float = 0.01, max_rounds: int = 10
) -> Method:
    """A turn of a solution is sampled n times after the turns before it; the reward is whether it leads where the
    expert's turn does; turns with variance > 0 and mean < below are trained by GRPO with a KL to the start.

    The paper profiles all turns once with the frozen start policy; here each is profiled by the samples it would be
    trained on, as in later reports that profile again while they train. below > 1 is DAPO's filter. The threshold and
    the KL's coefficient are assumptions.
    """
    return Method(
        rollout=NextTurn(n=n, style=style),
        keep=(KeepPivots(below=below, max_rounds=max_rounds),),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)), KL("k3", coefficient=kl)),
        metric=(ReportMean("rollout.cut"),),
        roles=(Role("ref"),),
    )
