"""DRIVE: data curation for competitive programming, broad first and then hard."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.memories import Sweeps
from podium.method import Home, Method, Phases, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import DropMeasuring, DuplicateHard
from podium.parts.objective import Clip, Likelihood, PolicyGradient
from podium.parts.select import HardFocus
from podium.strategies import Draw, Sample

__all__ = ["drive"]


@recipe(
    summary="Two-phase curriculum: many tasks with few rollouts, then ever fewer of the hardest with very many.",
    citation="DRIVE: Data Curation Best Practices for RLVR in Competitive Code Generation",
    tags=("curriculum", "difficulty", "rollout budget", "data selection", "code", "sft"),
    protocol=Protocol(
        model="Qwen2.5-32B-Instruct", iterations=160, max_tokens=32768, source="arXiv 2511.06307, sections 3 and 4.1"
    ),
    home=Home("sums", level=3, tasks=8, pool=16),
    presets={
        "paper": {"first": 32, "keep": (72, 50, 25), "iterations": (64, 32, 32), "pool": 175},
        "method-section": {"n": 80},
        "supervised": {"supervised": ShareOfRun(0.2)},
    },
)
def drive(
    n: int = 64,
    first_n: int = 8,
    first: Count = ShareOfRun(0.15),
    short: float = 0.75,
    keep: tuple[float, ...] = (0.41, 0.29, 0.14),
    iterations: tuple[Count, ...] = (ShareOfRun(0.25), ShareOfRun(0.15), ShareOfRun(0.15)),
    pool: int | None = None,
    supervised: Count = 0,
    style: str = "short",
    clip: float = 0.2,
    mini_batches: int = 4,
) -> Method:
    """`first` iterations of GRPO with 8 rollouts and three quarters of the later length limit. Then, before each phase,
    the tasks of the previous phase are measured with n rollouts each, which are not trained; the `keep` tasks with the
    lowest pass rates are trained for the phase's number of iterations. A dropped task does not return.

    The paper trains 32 iterations on 9,000 tasks, then 64, 32 and 32 on the 72, 50 and 25 hardest of 175
    (`drive@paper`). By default the shares are about the same, and the iterations that measure are part of the run.

    One phase that keeps everything, with 8 rollouts and short = 1, is GRPO. Tasks that are never solved stay in: of 64
    rollouts at a rate of 2 % some succeed with probability 0.73, of 8 with 0.15. The paper says 64 rollouts in one
    section and 80 in another (`drive@method-section`). It begins with a distilled model: `drive@supervised` imitates
    the world's solutions first (in the paper three passes over 470,000 tasks, 512 at once), twice where none of 8
    rollouts is right and not at all where all are, in place of its difficulty classifier and its five-fold filter. The
    4 mini-batches are ours.

    Args:
        n: Rollouts per task in the later phases.
        first_n: Rollouts per task in the first phase.
        first: Iterations of the first phase.
        short: Length limit of the first phase, as a share of the run's.
        keep: Tasks trained in each later phase; below 1, a share of the `pool`.
        iterations: Iterations of each later phase; the last one goes on.
        pool: Tasks measured before the first of them; None: all of the run.
        supervised: Iterations of imitation before everything else; 0: none.
        style: Which of the world's solutions are imitated, by their style.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        mini_batches: Optimiser steps per batch.
    """
    if len(keep) != len(iterations):
        raise PodiumError(f"drive: {len(keep)} sizes in keep for {len(iterations)} phases in iterations.")
    plain = Method(
        "broad",
        rollout=Sample(n=first_n, draw=Draw(token_share=short)),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
    )
    focus = plain.with_(
        name="focus",
        select=HardFocus(keep=keep, pool=pool),
        rollout=Sample(n=n),
        keep=(DropMeasuring(),),
        memories=(Sweeps(iterations=iterations),),
    )
    imitate = Method(
        "imitate",
        rollout=Sample(n=first_n, demonstrations=(style, style)),
        keep=(DuplicateHard(),),
        objective=(Likelihood(where="rollout.imitated"),),
    )
    before = [method.until(count) for method, count in ((imitate, supervised), (plain, first)) if count]
    return Phases(*before, focus)
