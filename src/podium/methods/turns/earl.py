"""EARL: expanded action spaces, and counterfactual policy optimisation."""

from __future__ import annotations

from podium.core.errors import PodiumError, nearest
from podium.core.updates import Updates
from podium.memories import ToolGains
from podium.method import Home, Method
from podium.methods._shared import ADAMW, anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import CounterfactualGain
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.protocols.actions import ToolActions
from podium.protocols.grammar import Routed
from podium.strategies import Counterfactual, Draw

__all__ = ["earl"]

NUMBER, PLACES = "[1-9][0-9]{0,5}", " [1-9] [1-9]"
DEVICES = {"calc": rf" {NUMBER}[*+\-]{NUMBER}", "compare": PLACES, "swap": PLACES}  # what may be written in each
TOKENS = tuple(f"<|reserved_{number}|>" for number in range(28, 32))


@recipe(
    summary="Tools have tokens of their own; into groups that fail, calls are inserted and credited by their gain.",
    citation="Expanding the Action Space of LLMs to Reason Beyond Language, https://github.com/yue-zhongqi/earl",
    tags=("tools", "agents", "exploration", "zero-variance groups", "counterfactual", "multi-turn"),
    presets={"sorting": {"tools": ("compare", "swap")}, "paper": {"mini_batches": 8}},
    protocol=ADAMW.replace(
        model="Qwen2.5-7B-Instruct",
        lr=1e-6,
        tasks=256,
        source="the release, yue-zhongqi/earl: groups of 8, mini-batches of 32 of 256 prompts",
    ),
    home=Home("calculator", level=1, iterations=12, tasks=16, model="podium/tiny2"),
)
def earl(
    n: int = 8,
    tools: tuple[str, ...] = ("calc",),
    tokens: tuple[str, ...] = TOKENS,
    softness: float = 10.0,
    top_k: int = 10,
    top_p: float = 0.9,
    start: float = 0.001,
    decay: float = 0.9,
    epsilon: float = 1e-6,
    scale: str = "std",
    clip: float = 0.2,
    kl: float = 0.001,
    mini_batches: int = 4,
) -> Method:
    """A = R′ − R in a group whose rewards sum to 0: into each of its rollouts, of reward R, a call of a tool is
    inserted, the rest is sampled anew, and the result, of reward R′, is trained in its place, with what was kept before
    the call. Elsewhere A = (R − mean) / (std + epsilon), GRPO's. The place of a call is drawn from softmax(log p /
    softness) of the tool's word at every place outside of a tool, after top-k and top-p; the tool, one for each
    iteration, by the running average of what its calls have gained.

    A tool is called by a token, not by text. It begins at the mean of the embeddings of its word, and what may follow
    it is masked to what the tool takes; sampler and trainer score tokens within that mask. Without a failed group it is
    GRPO, number for number. A gain lies in [0, 1] where rewards do, so it weighs less than a standardised advantage,
    and a rewrite that fails has no gradient. Rewards of both signs that sum to 0 count as failure, as in the release.
    The authors widen the vocabulary by a head for these actions; here reserved tokens of the model serve, whose rows
    are trained with the rest. Their actions inside of a tool are ids of their own, too; here they are ordinary tokens
    under the mask. The end of a turn takes the place of their token that leaves a tool.

    Args:
        n: Rollouts per task (the group size).
        tools: The tools that there are: `calc`, `compare`, `swap`.
        tokens: Special tokens of the model that stand for the tools, in their order.
        softness: Temperature of the scores of places.
        top_k: Likeliest places that a call is inserted at.
        top_p: Probability mass of the likeliest places that are kept.
        start: Average gain of a tool before it was tried.
        decay: Decay of the average gain.
        epsilon: Added to the standard deviation.
        scale: `std`, or `none` for advantages that are only centred.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
    """
    for tool in tools:
        if tool not in DEVICES:
            raise PodiumError(f"earl: there is no tool {tool!r}. {nearest(tool, DEVICES)}")
    if not tools or len(set(tools)) < len(tools) or len(tokens) < len(tools):
        raise PodiumError(f"earl: tools = {tools!r} need a token each, and have {len(tokens)}: name each tool once.")
    named = dict(zip(tokens, tools, strict=False))
    draw = Draw(
        grammar=Routed(tuple((token, DEVICES[tool]) for token, tool in named.items())),
        format=ToolActions(words=tuple((token, f"{tool}:") for token, tool in named.items())),
    )
    method = Method(
        rollout=Counterfactual(n=n, softness=softness, top_k=top_k, top_p=top_p, draw=draw),
        advantage=CounterfactualGain(epsilon=epsilon, scale=scale),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.rewritten"),),
        memories=(ToolGains(len(tools), start, decay),),
    )
    return anchored(method, KL("k3", coefficient=kl))
