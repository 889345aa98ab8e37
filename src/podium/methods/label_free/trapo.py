"""TODO"""

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
    summary="Tasks without labels learn from votes if their rate of success has grown like that of tasks with labels.",
    citation="TraPO: Semi-Supervised RLVR, https://github.com/ShenzhiYang2000/TRAPO",
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
    without clip, Σ over tokens / max_length, labelled and unlabelled tasks in updates of their own; an entropy bonus.

    labelled = 1 is Dr. GRPO without clip; tau < −1 trains on all unlabelled tasks after the warm-up, match = False from
    the start. Tasks must come again: take a world with a fixed number of them.
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
