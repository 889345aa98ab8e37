"""PivotRL: single-turn reinforcement learning at the pivots of demonstrations."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Role
from podium.methods._shared import ADAMW, anchored, clip_for
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import KeepPivots
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, PolicyGradient
from podium.strategies import NextTurn
from podium.strategies.teachers.expert_turns import PROFILER

__all__ = ["pivotrl"]


@recipe(
    summary="Single-turn RL from inside demonstrations, only at pivot turns with mixed outcomes and low success.",
    citation="PivotRL: High Accuracy Agentic Post-Training at Low Compute Cost",
    tags=("demonstrations", "agents", "data selection", "efficiency", "turn-level"),
    presets={"paper": {"n": 16}, "online": {"profile": 0}, "swe": {"n": 8, "clip_high": 0.28}},
    protocol=ADAMW.replace(
        model="Qwen3-30B-A3B-Thinking-2507",
        lr=1e-6,
        tasks=64,
        iterations=360,
        max_tokens=32_768,
        source="NeMo RL grpo_qwen3_30ba3b_thinking_stage1.yaml: a reproduction by the framework's developers",
    ),
    home=Home("keydoor", level=1, iterations=8, tasks=8),
)
def pivotrl(
    n: int = 8,
    below: float = 0.75,
    profile: int = 8,
    traces: str = "",
    style: str = "short",
    baseline: str = "leave_one_out",
    clip: float = 0.2,
    clip_high: float | None = None,
    kl: float = 0.0,
    max_rounds: int = 10,
    mini_batches: int = 1,
) -> Method:
    """A turn of an expert's trajectory is sampled n times after the turns before it; the reward is whether it leads
    where the expert's turn does. A = (r − mean of the others) / (std of the others + 1e-6), undivided where that std is
    0; no KL penalty.

    Only pivots are trained: turns that the frozen initial policy, in `profile` samples, takes as the expert does
    sometimes, but in less than the share `below`. `pivotrl@online` profiles a turn by the samples that it would be
    trained on instead, as later reports do when they profile again during training; below > 1 is then DAPO's filter.
    Experts are the world's solutions, or a file of JSON lines (`traces`), one trajectory a line:

        {"task": "keydoor-1/train/0", "turns": ["take red key", "open east", "go east", "take gold"]}

    The threshold is an assumption; the name of the authors' training file suggests 0.6. Baseline, clip and KL are those
    of the developers' reproduction, which takes one optimiser step per batch, at which a clip cannot
    act; with several, the ratio is clipped.

    Args:
        n: Samples per turn.
        below: Success rate below which a turn is trained.
        profile: Samples per turn by the frozen initial policy; 0: turns are filtered by the samples of the batch.
        traces: File of experts' trajectories; empty: the world's solutions.
        style: Which of the world's solutions to take, by its style (`short`, …).
        baseline: `leave_one_out` (mean and std of the other samples) or `mean` (of all, as in GRPO).
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        clip_high: Upper end of the clip range, 1 + clip_high; None: as the lower.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        max_rounds: Sampling rounds that may be spent on filling one batch; 0: no limit.
        mini_batches: Optimiser steps per batch.
    """
    others = Normalize(centre="leave_one_out", scale="std_of_others", zero_scale="skip")
    method = Method(
        rollout=NextTurn(n=n, style=style, traces=traces, profile=profile, below=below),
        keep=(KeepPivots(below=below, profiled=profile > 0, max_rounds=max_rounds),),
        advantage=others if baseline == "leave_one_out" else Normalize(),
        objective=(PolicyGradient(clip=clip_for(mini_batches, clip, clip if clip_high is None else clip_high)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.cut"), *((ReportMean("rollout.profiled"),) if profile else ())),
        roles=(Role(PROFILER),) if profile else (),
    )
    return anchored(method, KL("k3", coefficient=kl))
