"""ICPO: in-context steered policy optimisation."""

from __future__ import annotations

from podium.core.schedule import Count, Linear
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.method import Home, Method
from podium.methods._shared import ADAMW, anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import RejectGuided
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, PolicyGradient, Shaped
from podium.parts.reward import GuidedBonus
from podium.strategies import Guided, WorkedExamples
from podium.strategies.hints.help import Help

__all__ = ["icpo"]


@recipe(
    summary="In-context guidance: some rollouts see a worked example, removed for training (off-policy, shaped).",
    citation="Huang et al. 2025, ICPO: In-Context Steered Policy Optimization, https://github.com/Celine-hxy/ICPO",
    tags=("hints", "demonstrations", "off-policy", "exploration", "importance sampling"),
    protocol=ADAMW.replace(
        model="Qwen3-1.7B",
        lr=1e-6,
        tasks=128,
        iterations=400,
        max_tokens=8192,
        pool=46_000,
        source="Celine-hxy/ICPO verl/recipe/icpo/scripts/baseline/Qwen3-1.7b/ICPO_qwen3-1.7b_math-demo-icpo-rs.sh",
    ),
    home=Home("sums", level=2),
    presets={"paper": {"reject": True, "steps": 400}},
)
def icpo(
    n: int = 8,
    guided: int = 1,
    examples: Help = WorkedExamples(),
    bonus: float = 1.0,
    steps: Count = ShareOfRun(1.0),
    gamma: float = 0.1,
    reject: bool = False,
    epsilon: float = 1e-6,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual: float = 3.0,
    kl: float = 0.001,
    mini_batches: int = 2,
) -> Method:
    """The last `guided` of n rollouts see another task with its solution, which is removed for training. A right one of
    them gets 1 + bonus · max(0, 1 − t / steps). GRPO's advantage over all; plain rollouts: PPO's clip with dual clip;
    guided ones: −A p / (p + gamma). Mean over all tokens; k3 with 0.001.

    guided = 0 is GRPO. The release trains on wrong guided rollouts too; `icpo@paper` leaves them out of the loss. Notes
    on the paper give gamma = 0.01, the release has 0.1.

    Args:
        n: Rollouts per task (the group size).
        guided: Rollouts of each group that see an example.
        examples: What they are shown: worked examples, or any other kind of help.
        bonus: Extra reward of a right guided rollout at the start.
        steps: Iterations over which the bonus falls to 0.
        gamma: Shaping constant of the off-policy term, a probability.
        reject: Leave wrong guided rollouts out of the loss.
        epsilon: Added to the standard deviation.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
    """
    method = Method(
        rollout=Guided(n=n, help=examples, guided=guided),
        reward=(GuidedBonus(Linear(bonus, 0.0, over=steps)),),
        keep=(RejectGuided(),) if reject else (),
        advantage=Normalize(epsilon=epsilon),
        objective=(
            PolicyGradient(clip=Clip(clip_low, clip_high, dual=dual), where="rollout.plain", over="all"),
            Shaped(gamma, where="rollout.guided", over="all"),
        ),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.correct", where="rollout.guided"),),
    )
    return anchored(method, KL("k3", coefficient=kl))
