"""HiLL: learning to hint."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Role
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import KeepMixed
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import HintReward, LearnToHint

__all__ = ["hill"]


@recipe(
    summary="Co-trains a hinter: hints that make failing tasks solvable and whose effect transfers hint-free.",
    citation="HiLL: Learning to Hint for Reinforcement Learning, https://github.com/Andree-9/HiLL",
    tags=("hints", "difficulty", "zero-variance groups", "multi-agent"),
    protocol=ADAMW.replace(
        model="Qwen2.5-7B-Instruct",
        lr=1e-6,
        tasks=128,
        iterations=500,
        max_tokens=10240,
        source="Andree-9/HiLL scripts/run_hill.sh",
    ),
    home=Home("sums", level=3),
    presets={"paper": {"ask": LearnToHint.ask}, "instruct": {"ask": LearnToHint.ask}},
)
def hill(
    n: int = 8,
    hints: int = 4,
    base: str = "mixed",
    transfer: float | None = 0.3,
    penalty: float = -0.2,
    ask: str = "",
    hinter: str = "initial",
    epsilon: float = 1e-6,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual: float | None = 3.0,
    mini_batches: int = 2,
    style: str = "short",
) -> Method:
    """For a task that all n rollouts fail the hinter, which sees question, solution and a failed answer, writes `hints`
    hints; n rollouts try each. A hint gets (1 − pᴺ − (1 − p)ᴺ) · e^{min(d, 0) / transfer}, p the share of successes and
    d how much less likely they are without the hint, per token; `penalty` if it cannot be parsed or leaks the answer.
    The rollouts under the best hint replace the group, with the hint in the prompt. Both models learn by GRPO, the
    hints of a task being a group; groups without advantage are dropped.

    Without a failed group it is GRPO without zero-variance groups. `hill@instruct` and `hill@paper` ask for a hint in
    words, as the authors do. By default, which suits models that follow no instructions, too, the solution stands in
    the prompt as a hint, and the first half of what the hinter then writes is its hint.

    Args:
        n: Rollouts per task (the group size).
        hints: Hints per failed task.
        base: Reward of a hinted group: `mixed` (chance of a mixed group) or `variance`, p (1 − p).
        transfer: Scale in nats per token of the transfer factor; None: no such factor.
        penalty: Reward of a hint that cannot be parsed or leaks the answer.
        ask: Prompt of the hinter, with {question}, {attempt} and {solution}; empty: the solution as a hint.
        hinter: Weights of the hinter: `initial` (the policy's first), or a path to a model with the same tokenizer.
        epsilon: Added to the standard deviation.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|; None: no dual clip.
        mini_batches: Optimiser steps per batch.
        style: Which of the world's solutions to take, by its style (`short`, …).
    """
    clip = Clip(clip_low, clip_high, dual=dual)
    return Method(
        rollout=LearnToHint(n=n, hints=hints, hint_reward=HintReward(base, transfer, penalty), ask=ask, style=style),
        keep=(KeepMixed(top_up=False),),
        advantage=Normalize(epsilon=epsilon),
        objective=(
            PolicyGradient(clip=clip, where="rollout.solving"),
            PolicyGradient(clip=clip, where="rollout.hinting", behaviour="hinter", trains="hinter"),
        ),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.guided", where="rollout.solving"),),
        roles=(Role("hinter", source=hinter),),
    )
