"""EARL: entropy-aware reinforcement learning for RTL code generation."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method
from podium.methods._shared import SELECTED, anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import Cascade
from podium.parts.shape import SelectTokens
from podium.strategies import Sample

__all__ = ["earl_rtl"]


@recipe(
    summary="Gates the policy gradient to high-entropy tokens for RTL (Verilog) code; KL penalty on every token.",
    citation="EARL: Entropy-Aware RL Alignment of LLMs for Reliable RTL Code Generation, 2025",
    tags=("entropy", "token-level", "code", "kl penalty"),
    home=Home("tools", level=1, dials={"profile": True}, iterations=8, tasks=8),
)
def earl_rtl(
    n: int = 8,
    share: float = 0.2,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    kl: float = 0.001,
    cascade: bool = True,
    mini_batches: int = 4,
) -> Method:
    """g_t · max(−A r, −A clip(r)) + kl · k3 with g_t = [H_t ≥ the (1 − share)-quantile of its rollout], H of the
    behaviour policy; both divide by all tokens. GRPO's advantage.

    The reward is a cascade: 0.1 for a text that parses, 0.2 for the right interface, plus 0.3 · share of tests passed,
    and 1 for a program that is right. The embedded world `code` has programs in Python in place of hardware, and tests
    in place of formal equivalence; `tools` with `profile=True` has calls. share = 1 and kl = 0 is PPO's clip with
    GRPO's advantage. The defaults are assumptions: no release was found.

    Args:
        n: Rollouts per task (the group size).
        share: Share of each rollout's tokens, those of highest entropy, that get the policy gradient.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        cascade: Take the reward from ordered checks of the world (`rollout.parses`, `rollout.interface_matches`,
            `rollout.passed`, `rollout.correct`); False: the world's reward.
        mini_batches: Optimiser steps per batch.
    """
    method = Method(
        rollout=Sample(n=n),
        reward=(Cascade(tests="rollout.passed", complete="rollout.correct"),) if cascade else (),
        advantage=Normalize(),
        shape=(SelectTokens("entropy", share, scope="rollout", of="sampler"),),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high), where=SELECTED, over="all"),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean(SELECTED),),
    )
    return anchored(method, KL("k3", coefficient=kl))
