"""TraPO: semi-supervised RLVR by matching learning trajectories."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfRun, ShareOfTokens
from podium.core.term import Aggregate
from podium.memories import Trajectories
from podium.method import Home, Method
from podium.methods._shared import ADAMW
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
    protocol=ADAMW.replace(
        model="Qwen2.5-Math-7B",
        lr=1e-6,
        tasks=128,
        iterations=480,
        max_tokens=4096,
        pool=4096,
        source="ShenzhiYang2000/TRAPO initial/original_TraPO/exp_scripts/run_l_1k_u_3k_id.sh",
    ),
    home=Home("sums", level=2),
    presets={"paper": {"warmup": 8, "max_length": 4096}},
)
def trapo(
    n: int = 8,
    labelled: float = 0.25,
    tau: float = 0.4,
    top: float = 0.1,
    warmup: Count = ShareOfRun(2 / 15),
    match: bool = True,
    max_length: Count = ShareOfTokens(1.0),
    entropy: float = 0.001,
    mini_batches: int = 2,
) -> Method:
    """A share `labelled` of the tasks keeps its rewards; the others reward the clear favourite among their answers.
    Once a task has been visited `warmup` times, unlabelled ones train whose curve of success rates is similar to those
    of labelled ones (mean cosine of the standardised curves above tau, or among the `top` share). A = R − mean, −A · r
    without clip, Σ over tokens / max_length, labelled and unlabelled tasks in separate updates; an entropy bonus.

    labelled = 1 is Dr. GRPO without clip; tau < −1 trains on all unlabelled tasks after the warm-up. Tasks must be
    visited repeatedly. The authors visit each 15 times, the first 8 of which are the warm-up; in a run whose tasks come
    back every fourth iteration, 2/15 of the iterations are as many visits. A mini-batch has half of the tasks, so the
    quarter that is labelled takes one step, the rest two.

    Args:
        n: Rollouts per task (the group size).
        labelled: Share of the tasks that keep their labels.
        tau: Least similarity of an unlabelled task's learning curve.
        top: Share of the unlabelled tasks, the most similar, that is trained in any case.
        warmup: Visits of a task until it can be matched.
        match: Match learning curves; False: all unlabelled tasks train from the start.
        max_length: The constant by which the token sum is divided: the run's limit of a turn, or a number.
        entropy: Coefficient of the entropy bonus.
        mini_batches: The tasks of a batch fill this many mini-batches.
    """
    method = Method(
        rollout=Sample(n=n),
        reward=(PseudoLabel(labelled),),
        advantage=Normalize(scale="none"),
        shape=(MatchTrajectories(tau, top, warmup, match=match),),
        objective=(PolicyGradient(aggregate=Aggregate("token sum / length", length=max_length)),),
        updates=SeparateUpdates(mini_batches=mini_batches, proportional=True),
        metric=(ReportMean("group.labelled"), ReportMean("group.weight.matched")),
        memories=(Trajectories(),),
    )
    return method if entropy == 0 else method | Entropy(coefficient=entropy)
