"""GDPO: group reward-decoupled normalisation policy optimisation."""

from __future__ import annotations

from podium.core.schedule import Number
from podium.core.shares import ShareOfTokens
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import NormalizeEach
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import WithinLength
from podium.parts.shape import Whiten
from podium.strategies import Sample

__all__ = ["gdpo"]


@recipe(
    summary="Several rewards, each normalised within the group on its own; their sum is normalised over the batch.",
    citation="Liu et al. 2026, GDPO: Group reward-Decoupled Normalization Policy Optimization, "
    "https://arxiv.org/abs/2601.05242",
    tags=("several rewards", "group-relative", "advantage estimation", "length penalty"),
    protocol=Protocol(
        model="Qwen/Qwen2.5-1.5B-Instruct",
        lr=1e-6,
        tasks=512,
        max_tokens=1024,
        max_turns=1,
        pool=4000,
        source="NVlabs/GDPO, verl-GDPO/train_gdpo.sh (tool calls); the length is that of the runs on mathematics",
    ),
    home=Home(level=2),
    presets={"paper": {"max_length": 4000}, "verl": {"level": "token"}},
)
def gdpo(
    n: int = 4,
    rewards: tuple[tuple[str, float], ...] = (("rollout.correct", 1.0), ("rollout.reward.short", 1.0)),
    max_length: Number = ShareOfTokens(0.5),
    when_right: bool = False,
    level: str = "rollout",
    clip: float = 0.2,
    mini_batches: int = 4,
) -> Method:
    """A_k = (r_k − mean) / (std + 1e-6) over the rollouts of a group, for each reward k; A = Σ_k w_k A_k, whitened over
    the rollouts of the batch; PPO's clip; the mean over all tokens; no KL penalty; 4 updates per batch.

    GRPO would add the rewards first: (1, 0) and (0, 1) are then the same, and (1, 1), (1, 0) get the advantages of
    (1, 0), (0, 0). With one reward it is GRPO with a whitened batch. The rewards here are correctness, and 1 for an
    answer of at most `max_length` tokens, as in the paper's runs on mathematics; with `when_right` only a right answer
    can have the second. `gdpo@verl` (0.9) whitens over tokens, where long answers count more.

    Args:
        n: Rollouts per task (the group size).
        rewards: Columns of rollouts that are rewards, and the weight of each.
        max_length: Tokens up to which an answer counts as short: half of the run's limit, or a number (4,000 in the
            paper).
        when_right: Let only right answers count as short.
        level: Whiten the advantages over the batch's elements of this level: `rollout` or `token`.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        mini_batches: Optimiser steps per batch.
    """
    return Method(
        rollout=Sample(n=n),
        reward=(WithinLength(max_length, when_right),),
        advantage=NormalizeEach(of=rewards),
        shape=(Whiten(level=level),),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
    )
