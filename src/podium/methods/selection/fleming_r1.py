"""Fleming-R1: two stages of reinforcement learning, consolidation and then what is still failed."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.memories import Sweeps
from podium.method import Home, Iterations, Method, Phases, Plateau, Protocol
from podium.methods._taught import taught
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import MatchPatterns
from podium.parts.keep import DropMeasuring
from podium.parts.objective import PolicyGradient
from podium.parts.reward import ColumnBonus
from podium.parts.select import EasierTiers, HardMix
from podium.protocols.tagged import ThinkTags
from podium.strategies import Draw, Sample

__all__ = ["fleming_r1"]


@recipe(
    summary="Two-stage curriculum: easy and moderate tiers first, then mined failures with more rollouts.",
    citation="Fleming-R1: Toward Expert-Level Medical Reasoning via Reinforcement Learning, "
    "https://github.com/UbiquantAI/Fleming-R1",
    tags=("curriculum", "difficulty", "medicine", "data selection", "hard examples"),
    protocol=Protocol(model="Qwen2.5-7B", source="the paper in UbiquantAI/Fleming-R1; no training code is released"),
    home=Home("cases", level=1, tasks=8, pool=16, iterations=12, model="podium/tiny2"),
    presets={"stage-1": {"rounds": ()}, "paper": {"imitate": 0}},
)
def fleming_r1(
    n: int = 8,
    more: int = 2,
    format: float = 0.1,
    layout: str = r"(?s)^<think>.+</think>\s*answer:",
    tiers: tuple[str, ...] = ("easy", "moderate"),
    first: Count = ShareOfRun(0.2),
    patience: Count | None = None,
    by: float = 0.005,
    rounds: tuple[Count, ...] = (ShareOfRun(0.15), ShareOfRun(0.15)),
    hard: float = 0.25,
    share: float = 0.75,
    imitate: Count = ShareOfRun(0.15),
    mini_batches: int = 1,
) -> Method:
    """r = correct + format · [the layout is there], A = r − mean of the group, loss = −mean of A · Σ log π over the
    tokens: no std, no ratio, no clip, no KL. Stage 1 draws from the easier tiers in equal shares. Stage 2 measures the
    pass rate of every task before each round, without training on it, and draws batches of which `share` are tasks with
    a rate of at most `hard`, with `more` times as many rollouts.

    A = GRPO's times the group's std, so tasks near a rate of ½ weigh most, and long answers weigh more. With one stage
    and all tiers it is REINFORCE with a group mean. Tasks that are never solved stay among the hard ones and give no
    signal. The paper gives no weights of the reward, threshold, ratio or number of rollouts, which are ours; its stage
    1 ends when rewards stop moving (`patience`), here also after `first` iterations.

    It begins with imitation of the world's solutions, for the authors' cold start on a teacher's chains.

    Args:
        n: Rollouts per task in stage 1.
        more: How many times as many rollouts stage 2 samples.
        format: Weight of the layout in the reward.
        layout: Pattern (regular expression) of the right layout.
        tiers: Domains of the world that stage 1 draws from.
        first: Iterations of stage 1.
        patience: Iterations without a better mean reward that end stage 1 early; None: it has its full length.
        by: How much better counts as better.
        rounds: Iterations of each round of stage 2, without those that measure; the last one goes on. None: no stage 2.
        hard: Pass rate up to which a task counts as hard.
        share: Share of hard tasks in a batch of stage 2.
        imitate: Iterations that imitate the world's solutions, before everything else; 0: none.
        mini_batches: Optimiser steps per batch.
    """
    draw = Draw(format=ThinkTags())
    consolidate = Method(
        "consolidate",
        select=EasierTiers(tiers),
        rollout=Sample(n=n, draw=draw),
        annotate=(MatchPatterns((("answered", layout),)),),
        reward=(ColumnBonus("rollout.answered", format),),
        advantage=Normalize(scale="none", singleton="zero"),
        objective=(PolicyGradient(ratio="none", aggregate=Aggregate("token sum, rollout mean")),),
        updates=Updates(mini_batches=mini_batches),
    )
    if not rounds:
        return taught(consolidate, imitate, draw)
    mine = consolidate.with_(
        name="mine failures",
        select=HardMix(at_most=hard, share=share),
        rollout=Sample(n=more * n, draw=draw),
        keep=(DropMeasuring(),),
        memories=(Sweeps(iterations=rounds),),
    )
    ends = [Iterations(first), *([] if patience is None else [Plateau("reward", patience=int(patience), by=by)])]
    both = Phases(consolidate.until(*ends), mine)
    return taught(both, imitate, draw)
