"""Light-IF: entropy-preserving SFT and token-wise entropy-adaptive RL."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.schedule import Count, Number
from podium.core.shares import ShareOfRun, ShareOfTokens
from podium.core.updates import Updates
from podium.method import Home, Method, Phases, Protocol
from podium.methods._shared import ADAMW, SELECTED, anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import RouteBySuccess
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, CovarianceEntropy, Likelihood, PolicyGradient
from podium.parts.shape import SelectTokens
from podium.strategies import Draw, Sample

__all__ = ["light_if"]


@recipe(
    summary="Entropy-preserving SFT and RL with a token-wise adaptive entropy bonus, for instruction following.",
    citation="Light-IF: Preview and Self-Checking for Complex Instruction Following, https://github.com/Qihoo360/Light-IF",
    tags=("entropy", "entropy collapse", "sft", "token-level", "instruction following"),
    protocol=ADAMW.replace(
        model="Qwen3-32B",
        lr=5e-6,
        tasks=352,
        max_tokens=8192,
        max_turns=1,
        source="Qihoo360/Light-IF: rl/verl/recipe/Light-IF/Light-IF-32B-stage1.sh and -stage2.sh, coldstart/README.md",
    ),
    home=Home("sums", level=2),
    presets={
        "paper": {"scale": 10.0, "first_tokens": 1.0},
        "1.7b": {"cold_rate": 2.0, "first_tokens": 0.5},
        "rl": {"phase": "rl"},
        "sft": {"phase": "sft"},
        "release": {"scale": 0.0},
    },
)
def light_if(
    phase: str = "all",
    n: int = 8,
    scale: Number = ShareOfTokens(10 / 8192),
    cap: float = 5.0,
    clip: float = 1.0,
    dual: float = 10.0,
    kl: float = 0.001,
    share: float = 0.8,
    trade: float = 0.8,
    style: str = "short",
    cold_start: Count = ShareOfRun(0.2),
    cold_rate: float = 1.0,
    first_stage: Count = ShareOfRun(0.4),
    first_tokens: float = 0.5,
    mini_batches: int = 4,
) -> Method:
    """Three stages in one run: a cold start, and two of reinforcement learning, of which the second has longer answers.

    - Cold start (`@sft` alone): −log π on demonstrations, over the ⌊share⌋ of their tokens with the largest
      −log π − trade · H.
    - Reinforcement learning (`@rl` alone): GRPO's advantage, a clip of 1 on both sides, dual clip 10, k3 to the
      reference, and the bonus κ_t H_t with κ = clamp(scale · softmax of the covariance over a rollout, 0, cap), whose
      gradient also flows through κ; 4 updates per batch.

    scale = 0 has no bonus, as the release runs: its branch is never reached (`@release`). share = 1 is plain imitation.
    The softmax distributes `scale` over a rollout, so the bonus is stronger for shorter answers: the authors' 10 is
    meant for thousands of tokens and drowns the reward where an answer has twenty. As a share it is 10 in 8,192 tokens,
    and at least 1. The authors' second stage has data of its own, and for the 1.7B model twice the length; its 32B
    model has the same length in both (`@paper`). The lengths of the stages are ours. The reference is the model before
    the cold start, where the authors take the one after it.

    Args:
        phase: `all`, `rl` (the second stage of reinforcement learning alone), or the cold start `sft`.
        n: Rollouts per task (the group size).
        scale: Total of κ over a rollout (`rl`), or a share of the run's token limit.
        cap: Largest κ of a token (`rl`).
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        share: Share of the demonstrations' tokens that is trained (`sft`).
        trade: Weight of the entropy in choosing them (`sft`).
        style: Which of the world's solutions to take, by its style (`short`, …).
        cold_start: Iterations of the cold start, or a share of the run.
        cold_rate: Its learning rate relative to that of reinforcement learning.
        first_stage: Iterations of the first stage of reinforcement learning, or a share of the run.
        first_tokens: The share of the run's token limit that answers may take in it.
        mini_batches: Optimiser steps per batch of reinforcement learning.
    """
    if phase not in ("all", "rl", "sft"):
        raise PodiumError(f"light-if: phase = {phase!r} is not 'all', 'rl' or 'sft'.")
    cold = Method(
        "cold start",
        rollout=Sample(n=1, demonstrations=(style,)),
        keep=(RouteBySuccess(gate=1),),
        shape=(SelectTokens("surplus", share, rule="floor", trade=trade),),
        objective=(Likelihood(where=SELECTED),),
        metric=(ReportMean(SELECTED),),
        protocol=Protocol(lr=cold_rate * 5e-6, warmup=0.01, schedule="cosine", source="coldstart/README.md"),
    )
    surrogate = PolicyGradient(clip=Clip(clip, clip, dual=dual))
    second = Method(
        "second stage",
        rollout=Sample(n=n),
        advantage=Normalize(),
        objective=(surrogate, *(() if scale == 0 else (CovarianceEntropy(scale, cap),))),
        updates=Updates(mini_batches=mini_batches),
    )
    second = anchored(second, KL("k3", coefficient=kl))
    if phase != "all":
        return cold if phase == "sft" else second
    first = second.with_(rollout=Sample(n=n, draw=Draw(token_share=first_tokens))).replace(name="first stage")
    return Phases(cold.until(cold_start), first.until(first_stage), second)
