"""XRPO: targeted exploration and exploitation."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.memories import SolvedTasks
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import Novelty
from podium.strategies import Rounds

__all__ = ["xrpo"]


@recipe(
    summary="Adaptive rollout allocation by uncertainty, in-context examples for unsolved tasks, novelty bonus.",
    citation="XRPO: Pushing the Limits of GRPO with Targeted Exploration and Exploitation",
    tags=("rollout budget", "exploration", "uncertainty", "hints", "reward shaping"),
    protocol=Protocol(model="Qwen3-1.7B; Qwen2.5-7B-Instruct", source="paper and its reviews; no code has been seen"),
    home=Home("sums", level=3, tasks=12),
    presets={"plain": {"trained": "plain"}, "embedding": {"embedder": "policy"}},
)
def xrpo(
    n: int = 16,
    first: int = 4,
    rounds: int = 3,
    bonus: float = 1.0,
    examples: int = 2,
    trained: str = "sampled",
    embedder: str | None = None,
    pool: str = "mean",
    novelty: float = 2.5,
    cap: float = 0.5,
    clip: float = 0.2,
    mini_batches: int = 4,
) -> Method:
    """`first` rollouts of each task, then rounds: each further rollout goes to the task where h(m) − h(m + 1) + √(log(1
    + T)/m) is highest, h the half-width of the 95 % interval of the task's mean reward; n per task on average. Tasks
    without a success are sampled after `examples` solved ones that resemble them. A right answer gets A + min(2.5 (1 −
    eta)⁺, A/2), eta = its mean token probability over the group's (geometric means).

    first = n, novelty = 0 is GRPO without KL penalty. The paper's embedder is Qwen3-Embedding-8B, which pool = "last"
    reads as it was trained. The paper does not say whether answers after examples are trained without them:
    `xrpo@plain`. It has 16 rollouts per task, and three rounds; `first` and the
    4 mini-batches are ours.

    Args:
        n: Rollouts per task on average.
        first: Rollouts of every task before the first round.
        rounds: Rounds in which the rest is allocated.
        bonus: Weight of the exploration term √(log(1 + T)/m).
        examples: Solved tasks shown where nothing succeeds; 0: none.
        trained: Prompt that such rollouts are trained under: as `sampled`, or `plain`.
        embedder: What compares questions: a model's path or `policy` (its hidden states); None: shared character
            sequences.
        pool: How the embedder reads a question: the `mean` of its tokens' states or the `last` one.
        novelty: Weight of the novelty bonus.
        cap: Largest bonus, as a share of the advantage.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        mini_batches: Optimiser steps per batch.
    """
    role = embedder if embedder in (None, "policy") else "embedder"
    seeded = Rounds(n=n, first=min(first, n), rounds=rounds, bonus=bonus, examples=examples, trained=trained)
    return Method(
        rollout=seeded.replace(embedder=role or "", pool=pool),
        advantage=Normalize(),
        shape=(Novelty(novelty, cap),),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
        memories=(SolvedTasks(),) if examples else (),
        roles=(Role(role, source=embedder),) if role == "embedder" and embedder and examples else (),
    )
