"""TraPO: semi-supervised RLVR by matching learning trajectories."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.memories import Trajectories
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Entropy, PolicyGradient
from podium.parts.reward import PseudoLabel
from podium.parts.shape import MatchTrajectories
from podium.parts.updates import SeparateUpdates
from podium.strategies import Sample

__all__ = ["trapo"]


@recipe(
    summary="Semi-supervised RLVR: pseudo-labelled tasks train only if they learn like labelled ones do.",
    citation="TraPO: Semi-Supervised RLVR, https://github.com/ShenzhiYang2000/TRAPO",
    tags=("semi-supervised", "label-free", "majority vote", "data selection", "entropy"),
)
def trapo(
    n: int = 8,
    labelled: float = 0.25,
    tau: float = 0.4,
    top: float = 0.1,
    warmup: int = 8,
    match: bool = True,
    max_length: int = 4096,
    entropy: float = 0.001,
) -> Method:
    """A share `labelled` of the tasks keeps its rewards; the others reward the clear favourite among their answers.
    Once a task has been visited `warmup` times, unlabelled ones train whose curve of success rates is similar to those
    of labelled ones (mean cosine of the standardised curves above tau, or among the `top` share). A = R − mean, −A · r
    without clip, Σ over tokens / max_length, labelled and unlabelled tasks in separate updates; an entropy bonus.

    labelled = 1 is Dr. GRPO without clip; tau < −1 trains on all unlabelled tasks after the warm-up. Tasks must be
    visited repeatedly: take a world with a fixed number of them.

    Args:
        n: Rollouts per task (the group size).
        labelled: Share of the tasks that keep their labels.
        tau: Least similarity of an unlabelled task's learning curve.
        top: Share of the unlabelled tasks, the most similar, that is trained in any case.
        warmup: Visits of a task before it can be matched.
        match: Match learning curves; False: all unlabelled tasks train from the start.
        max_length: The constant by which the token sum is divided.
        entropy: Coefficient of the entropy bonus.
    """
    method = Method(
        rollout=Sample(n=n),
        reward=(PseudoLabel(labelled),),
        advantage=Normalize(scale="none"),
        shape=(MatchTrajectories(tau, top, warmup, match=match),),
        objective=(PolicyGradient(aggregate=Aggregate(f"token sum / {max_length}")),),
        updates=SeparateUpdates(),
        metric=(ReportMean("group.labelled"), ReportMean("group.weight.matched")),
        memories=(Trajectories(),),
    )
    return method if entropy == 0 else method | Entropy(coefficient=entropy)
