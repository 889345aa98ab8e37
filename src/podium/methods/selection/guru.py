"""Guru: reinforcement learning over several domains."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.memories import ModelRates
from podium.method import Home, Method, Phases, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import KeepWeakStrong, MeasureOnly
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import Sample

__all__ = ["guru"]


@recipe(
    summary="Cross-domain training: rewards by domain, and a filter by the pass rates of a weak and a strong model.",
    citation="Revisiting Reinforcement Learning for LLM Reasoning from A Cross-Domain Perspective, "
    "https://github.com/LLM360/Reasoning360",
    tags=("multiple domains", "data selection", "difficulty", "curriculum", "transfer"),
    protocol=Protocol(
        model="Qwen2.5-7B",
        lr=1e-6,
        weight_decay=0.1,
        warmup=10,
        schedule="constant",
        tasks=512,
        max_tokens=8192,
        source="LLM360/Reasoning360, training scripts: mini-batches of 64 prompts, 16 rollouts",
    ),
    home=Home("mix:sums,rules,countdown", level=1, tasks=12, pool=24, iterations=10),
    presets={"paper": {"mini_batches": 8, "measure": 0, "high": 0.9375}},
)
def guru(
    n: int = 16,
    high: float = 0.5,
    low: float = 0.0,
    weak: str | None = None,
    strong: str | None = None,
    measure: Count = ShareOfRun(0.2),
    clip: float = 0.2,
    dual: float = 10.0,
    epsilon: float = 1e-6,
    mini_batches: int = 4,
) -> Method:
    """GRPO on several domains, of which a mix has equal shares, each graded by its own world; tasks with
    p_weak ≥ high or p_strong ≤ low are dropped. A = (r − mean) / (std + 1e-6) within a task, clip 0.2 with dual clip
    10, mean over all tokens, no KL.

    A group never mixes domains, so that normalisation balances them; a domain that the world does not know raises an
    error instead of scoring 0. high > 1 and low < 0 is GRPO on the mix. The paper measures p_weak and p_strong with
    other models before training (`weak` and `strong` name runs of theirs, and high is 0.9375 there); without them the
    first iterations measure the policy itself, which is the weak model, and nothing is too hard. `podium bench
    transfer` trains on each domain and on the mix and prints what each gives the others.

    Args:
        n: Rollouts per task (the group size).
        high: Pass rate of the weak model from which on a task is dropped as too easy.
        low: Pass rate of the strong model up to which a task is dropped as too hard.
        weak: Directory of a run whose rollouts are the weak model's; None: the policy at its first visit.
        strong: Directory of a run whose rollouts are the strong model's; None: it solves everything.
        measure: Iterations that measure the policy before training, where `weak` is None; 0: none.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        dual: Cap of the ratio where the advantage is negative.
        epsilon: Added to the standard deviation.
        mini_batches: Optimiser steps per batch.
    """
    method = Method(
        rollout=Sample(n=n),
        keep=(KeepWeakStrong(high, low),),
        advantage=Normalize(epsilon=epsilon),
        objective=(PolicyGradient(clip=Clip(clip, clip, dual=dual)),),
        updates=Updates(mini_batches=mini_batches),
        memories=(ModelRates(weak, strong),),
    )
    if weak is not None or measure == 0:
        return method
    first = method.with_(name="measure", keep=(MeasureOnly(),))
    return Phases(first.until(measure), method)
