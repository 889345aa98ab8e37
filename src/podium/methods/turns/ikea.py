"""IKEA: reinforced internal-external knowledge synergistic reasoning."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import CountSearches, ReadSearchTags
from podium.parts.metric import NeedlessSearches
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import KnowledgeBoundary
from podium.parts.select import Balanced
from podium.protocols.tagged import ToolTags
from podium.strategies import Draw, Sample

__all__ = ["ikea"]

PLAIN_ANSWER = (("search", "{}", "search: {}"), ("answer", "{}", "answer: {}"))
ASK = "Write <think>your thoughts</think>, then <search>a query</search> or <answer>the answer</answer>."


@recipe(
    summary="Search only what is not known: right answers earn less with each search, wrong ones a little for trying.",
    citation="IKEA: Internal-External Knowledge Synergistic Reasoning, https://github.com/hzy312/knowledge-r1",
    tags=("search", "agents", "tool use", "efficiency", "knowledge boundary", "multi-turn"),
    presets={"paper": {"n": 16, "tags": True}, "search-r1": {"plus": 0.0, "minus": 0.0}},
    protocol=Protocol(
        model="Llama-3.2-3B-Instruct",
        lr=1e-7,
        tasks=256,
        max_turns=3,
        source="https://github.com/hzy312/knowledge-r1, the script for Llama: warm-up over 75 % of the steps",
    ),
    home=Home("lookup", level=1, iterations=12, tasks=16, model="podium/tiny2"),
)
def ikea(
    n: int = 8,
    plus: float = 0.6,
    minus: float = 0.05,
    most: int = 3,
    malformed: float = -1.0,
    tags: bool = False,
    clip: float = 0.2,
    kl: float = 0.001,
    mini_batches: int = 4,
) -> Method:
    """A right answer after s searches earns 1 + plus · max(0, 1 − s / most), a wrong one `minus` if it searched, a
    malformed rollout −1. GRPO's advantage with PPO's clip and a KL penalty of 0.001. Batches hold equally many tasks
    that the model knows and that it does not.

    plus = minus = 0 is Search-R1 (`ikea@search-r1`) with a price for malformed turns. The authors label a question as
    known if one of several samples of the initial model is right; here the world's domains say so (in `lookup`:
    `known`, a capital, and `unknown`). The label does not enter the reward, so a lucky guess without a search is worth
    most. With `tags` rollouts are written and read as released: `<think>…</think>`, then `<search>` or `<answer>`,
    answers compared without case, punctuation and articles; a tag's name in other brackets is malformed. Without it
    the world reads plain text, and a turn that it does not understand is malformed.

    Args:
        n: Rollouts per task (16 in the authors' run).
        plus: Bonus of a right answer without a search.
        minus: Reward of a wrong answer after a search.
        most: Searches at which the bonus is used up.
        malformed: Reward of a malformed rollout.
        tags: Write and read turns in tags, as the authors do.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
    """
    draw = Draw(format=ToolTags(ask=ASK, forms=PLAIN_ANSWER)) if tags else Draw()
    method = Method(
        select=Balanced(),
        rollout=Sample(n=n, draw=draw),
        annotate=(ReadSearchTags() if tags else CountSearches(),),
        reward=(KnowledgeBoundary(plus, minus, most, malformed),),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(NeedlessSearches(),),
    )
    return anchored(method, KL("k3", coefficient=kl))
