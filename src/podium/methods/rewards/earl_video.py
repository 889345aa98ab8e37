"""EARL for videos: select less, reason more, by rewards for pure evidence."""

from __future__ import annotations

from podium.core.schedule import Count, Number, Steps
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods._taught import taught
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import EvidenceOverlap
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import EvidencePurity
from podium.strategies import Draw, Sample

__all__ = ["earl_video"]


@recipe(
    summary="Rewards for picking evidence, for its purity (IoU), and for right answers, in full only on pure evidence.",
    citation="Select Less, Reason More: Prioritizing Evidence Purity for Video Reasoning, CVPR 2026",
    tags=("video", "multimodal", "evidence", "reward shaping", "curriculum", "multi-turn"),
    protocol=Protocol(
        model="Qwen2.5-VL-7B",
        tasks=256,
        source="public notes of the paper: OpenRLHF, 256 prompts of 8 rollouts, 3.8k traces before RL on 8.3k samples",
    ),
    home=Home("clips", level=1, iterations=10, tasks=16, model="podium/tiny2"),
    presets={"fixed": {"switch": None}, "unconditional": {"threshold": 0.0}},
)
def earl_video(
    n: int = 8,
    action: tuple[float, float] = (0.2, 0.05),
    relevance: tuple[float, float] = (0.1, 0.5),
    switch: Count | None = ShareOfRun(0.5),
    threshold: float = 0.5,
    epsilon: float = 1e-4,
    imitate: Count = ShareOfRun(0.1),
    style: str = "short",
    clip: float = 0.2,
    mini_batches: int = 4,
) -> Method:
    """r = outcome + α · [something was picked] + β · IoU, where IoU = |F ∩ F*| / |F ∪ F*| of the frames that were
    picked and those that the answer follows from, and the outcome is 1 for a right answer with IoU ≥ `threshold`, ½ for
    another right one, −1 for a wrong one. α falls and β rises after the first part of training: first act, then act
    well. GRPO otherwise, after imitation of the world's solutions.

    α = β = threshold = 0 is the outcome in {1, −1}. The numbers of α, β and the switch are ours: what we found of the
    paper gives their shape alone. It names neither a clip range nor a KL penalty: 0.2 and none are ours, too.
    `earl-video@fixed` keeps the early weights, `@unconditional` pays every right answer in full.

    Args:
        n: Rollouts per task (the group size).
        action: α before and after the switch.
        relevance: β before and after the switch.
        switch: Iterations of reinforcement learning with the first weights; None: all of them.
        threshold: The least IoU at which a right answer is paid in full.
        epsilon: Added to the standard deviation.
        imitate: Iterations that imitate the world's solutions, before everything else; 0: none.
        style: Which of the world's solutions to imitate, by its style.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        mini_batches: Optimiser steps per batch.
    """

    def weight(early_late: tuple[float, float]) -> Number:
        return early_late[0] if switch is None else Steps(early_late, (0, switch))

    method = Method(
        rollout=Sample(n=n),
        annotate=(EvidenceOverlap(),),
        reward=(EvidencePurity(threshold=threshold, action=weight(action), relevance=weight(relevance)),),
        advantage=Normalize(epsilon=epsilon),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.overlap"), ReportMean("rollout.looked")),
    )
    return taught(method, imitate, Draw(), style=style)
