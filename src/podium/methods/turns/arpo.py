"""ARPO: agentic reinforced policy optimisation with entropy-based branching."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.method import Home, Method
from podium.methods._shared import ADAMW
from podium.methods._taught import taught
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import FormsUsed
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import ToolUse
from podium.parts.shape import SharedNodes
from podium.protocols.tagged import ToolTags
from podium.strategies import Branching, Draw

__all__ = ["arpo"]


@recipe(
    summary="Entropy-based adaptive rollout: branches after tool calls where uncertainty rose, within one budget.",
    citation="Agentic Reinforced Policy Optimization, https://github.com/dongguanting/ARPO",
    protocol=ADAMW.replace(
        model="Qwen2.5-7B",
        lr=1e-6,
        tasks=128,
        iterations=578,
        max_tokens=4096,
        max_turns=4,
        pool=10_000,
        source="https://github.com/dongguanting/ARPO, ARPO_7B_Reasoning_1node.sh: 156 iterations after 54,000 examples",
    ),
    home=Home("tools", level=1),
    tags=("agents", "tool use", "exploration", "entropy", "rollout budget", "credit assignment"),
    presets={
        "paper": {"imitate": 422, "tools": ("search", "python")},
        "hard": {"attribution": "hard"},
        "plain": {"tools": None, "imitate": 0},
    },
)
def arpo(
    n: int = 16,
    initial: int = 8,
    imitate: Count = ShareOfRun(0.34),
    weight: float = 0.2,
    chance: float = 0.5,
    attribution: str = "soft",
    tools: tuple[str, ...] | None = ("search",),
    bonus: float = 0.1,
    malformed: float = -1.0,
    mini_batches: int = 8,
    clip: float = 0.2,
    dual: float | None = 3.0,
) -> Method:
    """`initial` of the `n` rollouts start independently; after a turn each forks with probability 0.5 + 0.2 · (H −
    H_0), H the entropy of the turn's first 20 tokens divided by that of the uniform distribution, until there are n.
    Turns write `<think>…</think>` and then `<search>`, `<python>` or `<answer>` with a boxed answer. The reward is the
    F1 score of the answer, plus 0.1 if it is above 0 and all tools were used; −1 if a turn is malformed or there is not
    exactly one answer. GRPO's advantage on all tokens (soft), or the mean of the branches on the turns that they share
    (hard). PPO's clip, no KL penalty.

    It begins with imitation of demonstrations in this format, as the authors' results do. weight = chance = 0 with
    initial = n is GRPO. For on-policy data soft and hard have the same gradient. The release keeps H_0 from batch to
    batch by row number; here each rollout has its own. It takes entropies over the ten likeliest tokens; here they are
    over the whole vocabulary. Forks are decided when a rollout has ended, in the order of its turns.

    Args:
        n: Rollouts per task, branches included.
        initial: Rollouts that start from the prompt.
        imitate: Iterations that imitate the world's solutions in this format, before everything else; 0: none.
        weight: Change of the fork probability with the rise in entropy.
        chance: Fork probability where entropy did not change.
        attribution: Credit of shared turns: `soft` (each branch its own) or `hard` (the mean of the branches).
        tools: The tags of the tools that earn the bonus together; None: plain text and the world's own reward
            (`arpo@plain`).
        bonus: Reward for using all tools.
        malformed: Reward where the format is wrong.
        mini_batches: Optimiser steps per batch.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|; None: no dual clip.
    """
    if attribution not in ("soft", "hard"):
        raise PodiumError(f"arpo: attribution = {attribution!r} is not 'soft' or 'hard'.")
    draw = Draw() if tools is None else Draw(format=ToolTags())
    rewarded = ToolUse(bonus, malformed, score="rollout.answer_f1", formed="rollout.complete")
    method = Method(
        rollout=Branching(n=n, initial=initial, weight=weight, chance=chance, draw=draw),
        annotate=() if tools is None else (FormsUsed(tools),),
        reward=() if tools is None else (rewarded,),
        advantage=Normalize(),
        shape=(SharedNodes(),) if attribution == "hard" else (),
        objective=(PolicyGradient(clip=Clip(clip, clip, dual=dual)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.forked"),),
    )
    return taught(method, imitate, draw, lr=7e-6)
