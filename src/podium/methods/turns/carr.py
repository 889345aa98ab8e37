"""CaRR: citation-aware rubric rewards for search agents, mixed into right answers by C-GRPO."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import EvidenceRubrics
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import GatedMix
from podium.parts.shape import SamplerCorrection
from podium.protocols.format import Format
from podium.strategies import Draw, Sample

__all__ = ["carr"]


@recipe(
    summary="Rubrics of single hops: entities named, sources cited, all connected to the answer; only if it is right.",
    citation="CaRR: Citation-aware Rubric Rewards for Deep Search Agents, https://github.com/THUDM/CaRR",
    tags=("search", "agents", "rubrics", "citations", "process reward", "multi-turn"),
    presets={"release": {"normalize": False}, "no-chain": {"connect": False}, "paper": {"mini_batches": 1}},
    protocol=ADAMW.replace(
        model="Qwen3-4B-Thinking-2507",
        lr=2e-6,
        tasks=16,
        max_tokens=65_536,
        source="https://github.com/THUDM/CaRR, scripts: 64k tokens of context in all",
    ),
    home=Home(
        *("lookup", 2),
        dials={"sources": True, "guess": 0.4},
        iterations=10,
        tasks=16,
        max_tokens=64,
        model="podium/tiny2",
    ),
)
def carr(
    n: int = 8,
    weight: float = 0.3,
    mode: str = "right",
    normalize: bool = True,
    connect: bool = True,
    ask: str = "explain with sources",
    clip: float = 0.2,
    clip_high: float = 0.28,
    mini_batches: int = 2,
) -> Method:
    """A rubric is one hop of the question with slots for the entities that it hides. It is met if the answer names the
    entities, cites a source that was shown and says so, and the hop hangs together with the answer through others that
    are met. A right answer earns (1 − weight) + weight · s / (the group's largest s), s the share of rubrics met; a
    wrong one 0. GRPO's advantage; clip to [1 − 0.2, 1 + 0.28]; mean over tokens; tokens whose probability under
    trainer and sampler differs by more than a factor of 2 are masked; no KL penalty.

    The mask is for samplers that compute otherwise than the trainer. Podium's own agree with it to rounding, where the
    mask leaves every token.

    weight = 0 is GRPO on outcomes. A right answer without citations earns 0.7, more than any wrong one. The released
    code computes the normalised score and mixes in the plain one (`carr@release`). There, language models write the
    rubrics and judge; here the world knows the hops of its questions (`lookup` with `sources`).

    Args:
        n: Rollouts per task (the group size).
        weight: Share of the rubrics in the reward of a right answer.
        mode: Where rubrics count: `right` answers, `all`, or `wrong` ones.
        normalize: Divide by the largest share of rubrics in the group.
        connect: Whether a rubric must hang together with the answer.
        ask: The line below the task that asks for sources.
        clip: Lower end of the importance ratio's clip range, 1 − clip.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        mini_batches: Optimiser steps per batch.
    """
    return Method(
        rollout=Sample(n=n, draw=Draw(format=Format(ask=ask))),
        annotate=(EvidenceRubrics(connect),),
        reward=(GatedMix(weight=weight, mode=mode, normalize=normalize),),
        advantage=Normalize(),
        shape=(SamplerCorrection.icepop(),),
        objective=(PolicyGradient(clip=Clip(clip, clip_high), aggregate=Aggregate("token mean")),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.rubric"), ReportMean("rollout.whole_chain")),
    )
