"""ArenaRL: the rank in a tournament of pairwise judgements is the reward."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods._taught import taught
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import WeightedSum
from podium.strategies import Arena, Draw

__all__ = ["arenarl"]


@recipe(
    summary="Open-ended tasks: a judge compares the rollouts of a group in a tournament, and the rank is the reward.",
    citation="ArenaRL: Scaling RL for Open-Ended Agents via Tournament-based Relative Ranking, "
    "https://github.com/Alibaba-NLP/qqr",
    tags=("judge", "tournament", "pairwise comparison", "ranking", "open-ended", "preference"),
    protocol=Protocol(
        model="Qwen3-8B",
        lr=1e-6,
        betas=(0.9, 0.98),
        weight_decay=0.1,
        schedule="constant",
        tasks=16,
        iterations=200,
        max_tokens=2000,
        source="https://github.com/Alibaba-NLP/qqr, scripts/deepresearch/run-qwen3-8B.sh",
    ),
    home=Home("trips", level=1, tasks=32, model="podium/tiny2"),
    presets={
        "paper": {"mini_batches": 1},
        "travel": {"topology": "anchor"},
        "pointwise": {"topology": "pointwise", "calls": 1},
    },
)
def arenarl(
    n: int = 16,
    topology: str = "seeded",
    calls: int = 2,
    temperature: float = 0.8,
    imitate: Count = 0,
    clip: float = 0.2,
    clip_high: float = 0.28,
    epsilon: float = 1e-6,
    mini_batches: int = 4,
) -> Method:
    """r_i = 1 − (rank_i − 1) / (N − 1) after a seeded single elimination within the group; A_i = (r_i − mean) / (std +
    1e-6); PPO's clipped surrogate without a KL penalty.

    The judge sees two whole rollouts at once and scores each, in both orders. First all meet rollout 0, for seeding;
    then a knock-out, from which those who lose late stand high: 2N − 2 comparisons instead of the N (N − 1) / 2 of a
    round robin, with which it agrees exactly if the judge is consistent and N a power of two. Anchor and round robin
    share ranks among equals, and give 0 to all if all are. The paper recommends the seeded elimination; the released
    configuration for travel (`arenarl@travel`) takes the anchor. `arenarl@pointwise` is what the paper compares with:
    each rollout is rated by itself, and normalised ratings are GRPO. The released Swiss system books points to other
    players than those who earned them, which ours does not. A judge that fails gives both the same score, as theirs
    does after ten attempts. The authors' judge is a language model with a rubric for the way to an answer (0.6) and
    the answer (0.4), their worlds are search and travel with tools; ours is the world's judge unless `rollout.judge`
    names another. A model that does not know the world is taught its form first with `imitate`. The authors take one
    update per batch (`arenarl@paper`), at which the clip cannot act; the 4 mini-batches are ours.

    Args:
        n: Rollouts per task (the group size N).
        topology: Who meets whom: seeded, anchor, round_robin, swiss, double_elimination; pointwise: nobody.
        calls: Calls of the judge for each comparison, in alternating order; for each rating if pointwise.
        temperature: The temperature that rollouts are sampled at.
        imitate: Iterations that imitate the world's solutions, before everything else; 0: none.
        clip: Lower end of the clip range of the importance ratio, 1 − clip.
        clip_high: Upper end of the clip range, 1 + clip_high.
        epsilon: Added to the standard deviation.
        mini_batches: Optimiser steps per batch.
    """
    draw = Draw(temperature=temperature)
    method = Method(
        rollout=Arena(n=n, topology=topology, calls=calls, draw=draw),
        reward=(WeightedSum((("rollout.arena.reward", 1.0),)),),
        advantage=Normalize(epsilon=epsilon),
        objective=(PolicyGradient(clip=Clip(clip, clip_high), aggregate=Aggregate("token mean, rollout mean")),),
        updates=Updates(mini_batches=mini_batches),
    )
    return taught(method, imitate, draw)
