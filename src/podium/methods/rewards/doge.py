"""DoGe: first the context, judged by a frozen solver, then the problems themselves."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.memories import PassRates
from podium.method import Home, Iterations, Method, Phases, Role
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import WeightedSum
from podium.parts.select import SometimesSolved
from podium.parts.shape import SamplerCorrection
from podium.strategies import Analysed, Draw, OptionScores, Sample

__all__ = ["doge"]


@recipe(
    summary="Analyses without the question, paid by how often a frozen copy solves the task with them; then GRPO.",
    citation="DoGe: Decouple to Generalize, https://github.com/opendatalab-raiser/DoGe",
    tags=("vision", "multimodal", "self-evolving", "frozen reader", "curriculum"),
    protocol=ADAMW.replace(
        model="Qwen2.5-VL-7B",
        lr=1e-6,
        tasks=48,
        iterations=900,
        source="opendatalab-raiser/DoGe, scripts: three times 150 + 150 steps of 48 prompts, mini-batches of 12",
    ),
    home=Home("scenes", level=2, iterations=12, tasks=12, max_tokens=24, pool=96, model="podium/tiny2"),
    presets={"second-stage": {"first": 0}, "paper": {"first": 150, "second": 150}},
)
def doge(
    n: int = 4,
    answers: int = 4,
    n_second: int = 8,
    format: float = 0.1,
    cycles: int = 3,
    first: Count = ShareOfRun(0.167),
    second: Count = ShareOfRun(0.167),
    low: float = 0.1,
    high: float = 0.3,
    temperature: float = 0.9,
    clip: float = 0.2,
    clip_high: float = 0.24,
    clip_high_second: float = 0.28,
    cap: float = 2.0,
    kl: float = 0.01,
    epsilon: float = 1e-6,
    mini_batches: int = 4,
) -> Method:
    """Stage 1: the policy sees a task without its question and writes an analysis; a frozen copy of it, as it was when
    the stage began, answers the question with the analysis. r = 0.9 · the share of its answers that are right + 0.1 ·
    [the analysis says something and has ended]. Stage 2: GRPO on the tasks, r = 0.9 · [right] + 0.1 · [reasoning, then
    an answer], on new tasks and on those last solved at a rate from `low` to `high`. Both stages alternate `cycles`
    times, each with its first policy as the reference.

    The reward is that of the code; the paper adds the solver's format instead. New tasks of the world stand for the
    variants that a stronger model writes there. Before all this the authors train the format alone for 15 steps, which
    the embedded models need not. `doge@second-stage` leaves the first stages out.

    Args:
        n: Analyses per task (the group size of stage 1).
        answers: Answers of the solver to each analysis.
        n_second: Rollouts per task in stage 2.
        format: Share of the format in the reward.
        cycles: How often both stages are repeated.
        first: Iterations of stage 1 in each cycle; 0: none.
        second: Iterations of stage 2 in each cycle.
        low: The lowest pass rate at which a task is kept.
        high: The highest pass rate at which a task is kept.
        temperature: Sampling temperature in stage 1.
        clip: Lower end of the importance ratio's clip range, 1 − clip.
        clip_high: Its upper end in stage 1, 1 + clip_high.
        clip_high_second: Its upper end in stage 2.
        cap: The largest importance weight between trainer and sampler.
        kl: Coefficient of the KL penalty (k3) to the policy at the start of the stage; 0 loads no reference model.
        epsilon: Added to the standard deviation.
        mini_batches: Optimiser steps per batch.
    """

    def stage(name: str, part: str, top: float) -> Method:
        terms = ((part, 1 - format), ("rollout.formed" if part != "rollout.correct" else "rollout.explained", format))
        method = Method(
            name,
            reward=(WeightedSum(terms),),
            advantage=Normalize(epsilon=epsilon),
            shape=(SamplerCorrection(cap=cap),),
            objective=(PolicyGradient(clip=Clip(clip, top)),),
            updates=Updates(mini_batches=mini_batches),
        )
        return method | KL("k3", coefficient=kl) | Role("ref", source="phase") if kl else method

    context = stage("context", "rollout.solver.rate", clip_high).with_(
        rollout=Analysed(n=n, answers=answers, draw=Draw(temperature=temperature)),
        metric=(ReportMean("rollout.solver.rate"),),
    ) | Role("solver", source="phase")
    problems = stage("problems", "rollout.correct", clip_high_second).with_(
        select=SometimesSolved(low, high),
        rollout=OptionScores(strategy=Sample(n=n_second), asks=False),
        memories=(PassRates(),),
    )
    ended = problems.until(Iterations(second))
    cycle = (ended,) if first == 0 else (context.until(Iterations(first)), ended)
    stages = cycle * cycles
    return Phases(*stages[:-1], problems)
