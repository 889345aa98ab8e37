"""PivotRL: single-turn reinforcement learning at the pivots of demonstrations."""

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
    summary="Single-turn RL from inside demonstrations, only at pivot turns with mixed outcomes and low success.",
    citation="PivotRL: High Accuracy Agentic Post-Training at Low Compute Cost",
    tags=("demonstrations", "agents", "data selection", "efficiency", "turn-level"),
)
def pivotrl(
    n: int = 8, below: float = 0.75, style: str = "short", clip: float = 0.2, kl: float = 0.01, max_rounds: int = 10
) -> Method:
    """A turn of a solution is sampled n times after the turns before it; the reward is whether it leads where the
    expert's turn does; turns with variance > 0 and mean < below are trained by GRPO with a KL penalty to the initial
    policy.

    below > 1 is DAPO's filter. The paper profiles all turns once with the frozen initial policy; here each is profiled
    by the samples it would be trained on, as in later reports that profile again during training. The threshold and the
    KL coefficient are assumptions.

    Args:
        n: Samples per turn.
        below: Success rate below which a turn is trained.
        style: Which of the world's solutions to take, by its style (`short`, …).
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference.
        max_rounds: Sampling rounds that may be spent on filling one batch; 0: no limit.
    """
    return Method(
        rollout=NextTurn(n=n, style=style),
        keep=(KeepPivots(below=below, max_rounds=max_rounds),),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)), KL("k3", coefficient=kl)),
        metric=(ReportMean("rollout.cut"),),
        roles=(Role("ref"),),
    )
