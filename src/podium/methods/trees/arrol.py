"""ARRoL: online rollout pruning."""

from __future__ import annotations

from podium.core.schedule import Count, Number, Steps
from podium.core.shares import ShareOfRun, ShareOfTokens
from podium.core.updates import Updates
from podium.memories import ScoreBins
from podium.method import Home, Method, Protocol, Role
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric import WeightedVote
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, PolicyGradient, QualityLoss
from podium.strategies import Prune

__all__ = ["arrol"]


@recipe(
    summary="Online rollout pruning: a learned quality head stops about half of the rollouts early, keeping balance.",
    citation="ARRoL: Prune as You Generate, https://github.com/Hsu1023/ARRoL",
    tags=("pruning", "efficiency", "rollout budget", "value function"),
    protocol=Protocol(model="Qwen3-1.7B, 4B and 8B; Llama-3.2-1B", pool=17_000, source="paper; no code is released"),
    home=Home("sums", level=2),
    presets={"paper": {"detect": 512, "cold": 20}},
)
def arrol(
    n: int = 8,
    keep: float = 0.5,
    target: float = 0.5,
    detect: Count = ShareOfTokens(0.125),
    cold: Count = ShareOfRun(0.2),
    bins: int = 10,
    prior_weight: float = 1.0,
    lr: float = 1e-3,
    clip: float = 0.2,
    kl: float = 0.001,
    mini_batches: int = 4,
) -> Method:
    """n rollouts pause after `detect` tokens; with a probability p of ending well, a head's score corrected by how
    often scores of its bin were right, a rollout goes on with probability p q⁺ + (1 − p) q⁻: a share `keep` survives,
    and `target` of these should be right. GRPO on the survivors alone; the head learns from them by cross-entropy.

    keep = 1 is GRPO. The survivors are a biased sample, which the method accepts. `weighted_vote` is the accuracy of
    votes weighted by the head's scores. The paper's code is not released: the survival formula is one that meets its
    targets, and the head's width and learning rate and the 4 mini-batches are ours. The paper judges after 512 tokens
    and prunes from its 21st iteration on.

    Args:
        n: Rollouts per task that are started.
        keep: Share of the rollouts that survives.
        target: Share of right answers aimed at among the survivors.
        detect: Tokens after which rollouts are judged; by default an eighth of `max_tokens`.
        cold: Iterations without pruning at the start; by default a fifth of the run.
        bins: Bins of scores in which the head is calibrated.
        prior_weight: Weight of the head's own score against the counts of its bin.
        lr: Learning rate of the head.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
    """
    early: Number = Steps((1.0, keep), (0, cold)) if cold else keep
    method = Method(
        rollout=Prune(n=n, keep=early, target=target, detect=detect, prior_weight=prior_weight),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)), QualityLoss()),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.detected"), WeightedVote()),
        memories=(ScoreBins(bins),),
        roles=(Role("quality", source="quality", lr=lr),),
    )
    return anchored(method, KL("k3", coefficient=kl))
