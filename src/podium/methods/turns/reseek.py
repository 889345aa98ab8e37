"""ReSeek: search agents that judge each result, with instructive rewards."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.updates import Updates
from podium.method import Home, Method
from podium.methods._shared import ADAMW, anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import JudgedSearch
from podium.protocols.context import Forget
from podium.protocols.format import Format
from podium.strategies import Draw, Sample

__all__ = ["reseek"]


@recipe(
    summary="After each search the agent says whether it helped, and is rewarded for judging as the answer would.",
    citation="ReSeek: A Self-Correcting Framework for Search Agents, https://github.com/TencentBAC/ReSeek",
    tags=("search", "agents", "self-correction", "process reward", "context management", "multi-turn"),
    presets={"hard": {"context": "hard"}, "mean": {"mean": True}, "paper": {"mini_batches": 1}},
    protocol=ADAMW.replace(
        model="Qwen2.5-7B-Instruct",
        max_turns=4,
        pool=169_615,
        source="the project page and the ICML version: NQ and HotpotQA; neither states learning rate or batch",
    ),
    home=Home("lookup", level=1, dials={"judge": True, "miss": 0.3}, iterations=10, tasks=16, model="podium/tiny2"),
)
def reseek(
    n: int = 8,
    match: float = 0.3,
    accepted: float = 0.6,
    rejected: float = 0.3,
    threshold: float = 0.7,
    gamma: float = 1.0,
    context: str = "soft",
    obey: bool = True,
    mean: bool = False,
    ask: str = "judge each result",
    clip: float = 0.2,
    kl: float = 0.001,
    mini_batches: int = 4,
) -> Method:
    """After each search the agent writes `judge: yes` or `judge: no`. R = Σ gamma^(t − 1) r_t over its judgements and
    the answer: a judgement earns `match` if it is the ideal one (`yes` where a result's utility exceeds the threshold),
    loses `accepted` for `yes` to a useless result and `rejected` for `no` to a useful one; the answer earns 1 if right.
    GRPO's advantage on all that the agent wrote.

    match = accepted = rejected = 0 is Search-R1. After `no` the next action must be a search: an answer there counts as
    wrong. The paper's utility is a reranker's score beside the right answer; here the world says whether the search
    showed a fact that the answer follows from (`lookup` with `judge`). An unreadable judgement loses `accepted`, which
    is our choice, as are clip and KL. Judgements that are easily right are paid however many there are: watch the
    number of turns, or average them (`reseek@mean`). In the first version a rejected result is left out of the context
    (`reseek@hard`); in the later one it stays.

    Args:
        n: Rollouts per task (the group size).
        match: Reward of an ideal judgement.
        accepted: Penalty for accepting a useless result.
        rejected: Penalty for rejecting a useful one.
        threshold: Utility above which a result is useful.
        gamma: Discount factor per judgement; the paper states none.
        context: What becomes of a rejected result: it stays (`soft`) or is left out (`hard`).
        obey: Whether an answer in place of the search that `no` demands counts as wrong.
        mean: Average judgements instead of adding them.
        ask: The line below the task that asks for judgements.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
    """
    if context not in ("soft", "hard"):
        raise PodiumError(f"reseek: context = {context!r} is not 'soft' or 'hard'.")
    draw = Draw(context=Forget() if context == "hard" else None, format=Format(ask=ask))
    method = Method(
        rollout=Sample(n=n, draw=draw),
        reward=(JudgedSearch(match, accepted, rejected, threshold, gamma, obey, mean),),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("turn.matched", "turn.was_judged"), ReportMean("turn.was_judged")),
    )
    return anchored(method, KL("k3", coefficient=kl))
