"""SAGE: self-hint aligned GRPO with privileged supervision."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.memories import HintLevels, LastHints
from podium.method import Home, Method
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import Guided, Repair, SelfWritten

__all__ = ["sage"]


@recipe(
    summary="Self-hinting: for failed tasks the policy writes hints of rising strength and retries, on-policy.",
    citation="SAGE: Self-Hinting Language Models Enhance Reinforcement Learning, https://github.com/BaohaoLiao/SAGE",
    tags=("self-hinting", "hints", "zero-variance groups", "on-policy", "difficulty", "curriculum"),
    protocol=ADAMW.replace(
        model="Qwen2.5-7B-Instruct",
        lr=1e-6,
        tasks=128,
        iterations=500,
        max_tokens=8192,
        source="BaohaoLiao/SAGE scripts/run_sage.sh",
    ),
    home=Home("sums", level=3),
    presets={"paper": {"ask": SelfWritten.ask}, "instruct": {"ask": SelfWritten.ask}, "light": {"light": True}},
)
def sage(
    n: int = 8,
    ask: str = "",
    levels: int = 3,
    light: bool = False,
    low: float = 0.1,
    high: float = 0.35,
    epsilon: float = 1e-6,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual: float | None = 3.0,
    mini_batches: int = 2,
    style: str = "short",
) -> Method:
    """Where all n rollouts fail, the policy is shown the solution and writes `levels` hints, from the idea to details;
    the group is resampled under the weakest, then the next, until one succeeds, and these rollouts replace the group,
    with the hint in the prompt. GRPO's advantage, clip 0.2 / 0.28, no KL penalty.

    A group with a success is GRPO's. Hints that cannot be parsed leave the group as it is. `sage@instruct` and
    `sage@paper` ask for the hints in words, as the authors do. By default, which suits models that follow no
    instructions, too, the solution stands in the prompt as a hint, and what the policy then writes is cut into levels.
    `sage@light` samples once, at a hint level remembered per task: one more if at most `low` of its rollouts succeeded
    the last time, one less if more than `high` did; it begins without a hint. There, hints that cannot be parsed are
    replaced by the last ones of the task that could be (`help.earlier` in the metrics); without any, the task is
    sampled without a hint, and its level is set accordingly.

    Args:
        n: Rollouts per task (the group size).
        ask: Prompt that asks for hints, with {question} and {solution}; empty: the solution as a hint.
        levels: Hints per task, from weak to strong.
        light: Sample once, at a remembered level.
        low: Success rate up to which the level rises (`light`).
        high: Success rate above which the level falls (`light`).
        epsilon: Added to the standard deviation.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|; None: no dual clip.
        mini_batches: Optimiser steps per batch.
        style: Which of the world's solutions to take, by its style (`short`, …).
    """
    hints = SelfWritten(ask, levels, style=style, earlier="group.hints" if light else None)
    remembered = Guided(n=n, help=hints, guided=None, level="group.hint.level", scaffold="kept")
    return Method(
        rollout=remembered if light else Repair(n=n, help=hints),
        memories=(HintLevels(low, high, levels), LastHints()) if light else (),
        advantage=Normalize(epsilon=epsilon),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high, dual=dual)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.guided"),),
    )
