"""GRPO-TCR: token-level loss, clip-higher and reward shaping for agents that call tools."""

from __future__ import annotations

from podium.core.schedule import Number
from podium.core.shares import ShareOfTokens
from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import CountMessages
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import Overlong, TriedTools
from podium.strategies import Sample

__all__ = ["grpo_tcr"]


@recipe(
    summary="Token-level loss, clip-higher, overlong shaping for tool use; wrong answers that tried tools lose less.",
    citation="Demystifying Reinforcement Learning in Agentic Reasoning, https://github.com/Gen-Verse/Open-AgentRL",
    tags=("tool use", "agents", "clipping", "token-level", "overlong", "multi-turn"),
    presets={"paper": {"n": 16, "max_length": 20480, "buffer": 4096}, "weak": {"clip_high": 0.315}},
    protocol=ADAMW.replace(
        model="Qwen3-4B-Instruct-2507",
        lr=1e-6,
        tasks=64,
        max_tokens=20480,
        max_turns=16,
        source="https://github.com/Gen-Verse/Open-AgentRL, recipe/demystify: mini-batches of 16 prompts, 3 epochs",
    ),
    home=Home("tools", level=2, iterations=8, tasks=8, max_tokens=64),
)
def grpo_tcr(
    n: int = 8,
    step: float = 0.1,
    cap: float = -0.6,
    max_length: Number = ShareOfTokens(3.0),
    buffer: Number = ShareOfTokens(1.0),
    penalty: float = 1.0,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual: float | None = 10.0,
    aggregate: str = "token mean",
    mini_batches: int = 4,
) -> Method:
    """Rewards of 1 and −1; each tool call lifts a wrong answer by `step`, up to `cap`; the reward falls by up to
    `penalty` over the last `buffer` tokens before `max_length`. GRPO's advantage, clip to [1 − 0.2, 1 + 0.28], dual
    clip 10, the mean over all tokens of the update; no KL penalty, no entropy bonus.

    step = 0 with cap = −1 leaves ±1; with penalty = 0, clip_high = clip_low, no dual clip and the aggregate `token
    mean, rollout mean` it is GRPO. Right answers get no bonus for calls. Where all are wrong, rollouts with more calls
    are preferred, by intent. Lengths are those of what the model writes over all its turns; the authors count tool
    output as well. Their script asks for a filter of groups that the trainer in it ignores: there is none here either.
    `grpo-tcr@weak` widens the clip, as they found best for a weaker model.

    Args:
        n: Rollouts per task (16 in the authors' run).
        step: What each tool call adds to the reward of a wrong answer.
        cap: The most that a wrong answer gets.
        max_length: Tokens of a rollout at which the overlong penalty is full: three turns of the run's limit, or a
            number (20,480 in the authors' run).
        buffer: Tokens before it over which the penalty grows from 0 (4,096 in the authors' run).
        penalty: Reward subtracted at the limit; 0: no overlong penalty.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|; None: no dual clip.
        aggregate: How the losses of tokens become one number, as the path of an `Aggregate`.
        mini_batches: Optimiser steps per batch.
    """
    return Method(
        rollout=Sample(n=n),
        annotate=(CountMessages(),),
        reward=(TriedTools(step, cap), Overlong(max_length=max_length, buffer=buffer, factor=penalty)),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high, dual=dual), aggregate=Aggregate(aggregate)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.messages"),),
    )
