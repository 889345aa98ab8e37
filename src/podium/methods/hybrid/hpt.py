"""HPT: hybrid post-training, a unified view of SFT and RL."""

from __future__ import annotations

from podium.core.part import Keep
from podium.core.schedule import Count
from podium.core.shares import ShareOfTokens
from podium.core.term import Aggregate, Term
from podium.method import Home, Method
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import RouteBySuccess, RouteSoftly
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, Entropy, Likelihood, PolicyGradient, Shaped
from podium.parts.updates import FixedSize
from podium.strategies import Sample

__all__ = ["hpt"]


@recipe(
    summary="Switches per task between RL on rollouts (solved often enough) and SFT on a demonstration.",
    citation="Lv et al. 2025, Towards a Unified View of LLM Post-Training, https://arxiv.org/abs/2509.04419",
    tags=("sft", "demonstrations", "imitation", "difficulty", "off-policy"),
    protocol=ADAMW.replace(
        model="Qwen2.5-Math-7B",
        lr=5e-6,
        tasks=128,
        iterations=500,
        max_tokens=8192,
        max_turns=1,
        pool=46_000,
        source="TsinghuaC3I/Unify-Post-Training exp_scripts/train.sh",
    ),
    home=Home("sums", level=2),
    presets={
        "paper": {"max_length": 8192},
        "llama": {"gate": 2},
        "small": {"sft": 0.3},
        "soft": {"soft": True},
    },
)
def hpt(
    n: int = 8,
    gate: int = 0,
    sft: float = 1.0,
    clip: float | None = None,
    max_length: Count = ShareOfTokens(1.0),
    entropy: float = 0.001,
    soft: bool = False,
    gamma: float = 0.1,
    mini_batches: int = 2,
    style: str = "short",
    traces: str = "",
) -> Method:
    """solved = rollouts with reward 1. solved > gate: Σ −A·r / max_length over the rollouts, A = r_i − mean, without
    clip; else they are dropped for −log π on the demonstration, the mean over its tokens times `sft`. An entropy bonus
    on all rows that are left.

    A mini-batch has half of the sampled rollouts (64 tasks, 512 rollouts in the release). A task that is imitated
    leaves one row in place of n, so a batch is trained in one or two steps.

    gate = −1 is Dr. GRPO summed over rollouts, gate = n is imitation alone. An update whose gradient norm exceeds 80 is
    skipped. The release sums over the rollouts of a micro-batch, this over those of the update. `hpt@soft`, in the
    release too, has no gate: with at most 1, 2, 3, 4, and 5 or more solved, the rollouts weigh 0, 1/8, 1/4, 1/2, 1 and
    −log π of the demonstration 1, 1/2, 1/4, 1/8, 0; −A p / (p + gamma) is added for it throughout.

    Args:
        n: Rollouts per task (the group size).
        gate: Successes up to which a task is imitated instead; −1: always RL.
        sft: Coefficient of the imitation loss.
        clip: Clip range of the importance ratio; None: no clip.
        max_length: The constant by which the token sum is divided: the run's limit of a turn, or a number.
        entropy: Coefficient of the entropy bonus.
        soft: Blend both losses by the number of successes instead of switching.
        gamma: Shaping constant of the off-policy term (`soft`), a probability.
        mini_batches: The sampled rollouts of a batch fill this many mini-batches.
        style: Which of the world's solutions to take, by its style (`short`, …).
        traces: A file of demonstrations by task, in place of the world's solutions; empty: none.
    """
    whole = Aggregate("token sum / length", length=max_length)
    surrogate = PolicyGradient(clip=None if clip is None else Clip(clip, clip), aggregate=whole)
    imitate = Likelihood(coefficient=sft)
    routes: Keep
    terms: tuple[Term, ...]
    if soft:
        shaped = Shaped(gamma, where="rollout.demonstration", aggregate=whole)
        imitate = imitate.replace(where="rollout.demonstration", weight="rollout.imitation")
        routes, terms = RouteSoftly(), (surrogate.replace(where="rollout.sampled"), shaped, imitate)
        watched = ReportMean("rollout.imitation", where="rollout.demonstration")
    else:
        routes = RouteBySuccess(gate)
        terms = (surrogate.replace(where="rollout.reinforced"), imitate.replace(where="rollout.imitated"))
        watched = ReportMean("group.imitated")
    method = Method(
        rollout=Sample(n=n, demonstrations=() if traces else (style,), traces=traces),
        keep=(routes,),
        advantage=Normalize(scale="none"),
        objective=terms,
        updates=FixedSize(mini_batches=mini_batches, skip_above=80.0),
        metric=(watched,),
    )
    return method if entropy == 0 else method | Entropy(coefficient=entropy)
