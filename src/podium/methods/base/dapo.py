"""DAPO: decoupled clip and dynamic sampling policy optimisation."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.schedule import Number
from podium.core.shares import ShareOfTokens
from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import DropTruncated, KeepMixed
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import Overlong, SignedReward
from podium.strategies import Sample

__all__ = ["dapo"]


@recipe(
    summary="GRPO with clip-higher, dynamic sampling, a token-level loss and a soft overlong penalty; no KL.",
    citation="Yu et al. 2025, DAPO, https://arxiv.org/abs/2503.14476",
    tags=("clipping", "dynamic sampling", "zero-variance groups", "overlong", "length penalty", "token-level"),
    protocol=Protocol(
        model="Qwen/Qwen2.5-32B",
        lr=1e-6,
        betas=(0.9, 0.999),
        weight_decay=0.1,
        warmup=160,  # 10 iterations of 16 updates
        schedule="constant",
        clip=1.0,
        tasks=512,
        max_tokens=20480,
        max_turns=1,
        pool=17000,
        source="verl-project/verl-recipe, dapo/run_dapo_qwen2.5_32b.sh",
    ),
    home=Home(
        level=2, iterations=8, tasks=32, max_tokens=48
    ),  # two tasks in each step, and some answers near the limit
    presets={"paper": {"max_length": 20480, "buffer": 4096}, "verl": {"aggregate": "token mean"}},
)
def dapo(
    n: int = 16,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual: float | None = 10.0,
    max_length: Number = ShareOfTokens(1.0),
    buffer: Number = ShareOfTokens(0.2),
    penalty: float = 1.0,
    varies: str = "rollout.correct",
    max_rounds: int = 10,
    truncated: str = "train",
    aggregate: str = "token mean, group mean",
    mini_batches: int = 16,
) -> Method:
    """Rewards of 1 and −1; GRPO's advantage; clip to [1 − 0.2, 1 + 0.28] and dual clip 10; the mean over the tokens of
    a task, then over tasks; groups that are all right or all wrong are dropped and replaced by sampling more; the
    reward falls by up to `penalty` over the last `buffer` tokens before `max_length`. No KL penalty; 16 updates per
    batch.

    With clip_high = 0.2, no dual clip, penalty = 0 and without `KeepMixed` it is GRPO with a token mean. Groups are
    filtered by correctness, as in the authors' scripts: an all-wrong group of unequal lengths has rewards that differ,
    which say nothing of the task. Rewards of a world, from 0 to 1, are mapped to −1 and 1 first: on those the penalty
    is half of what separates right from wrong. The paper averages over the tokens of each prompt, verl, in which the
    authors' scripts run, over those of the update: `dapo@verl` (0.9). The dual clip is from the scripts as well.

    Args:
        n: Rollouts per task (the group size).
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|; None: no dual clip.
        max_length: Length of an answer in tokens at which the overlong penalty is full: the run's limit, or a number
            (20,480 in the paper).
        buffer: Tokens before the limit over which the penalty grows from 0: a fifth of the run's limit, or a number
            (4,096 in the paper).
        penalty: Reward subtracted at the limit; 0: no overlong penalty.
        varies: The column by which groups are filtered: those in which it does not vary are dropped.
        max_rounds: Sampling rounds that may be spent on filling one batch; 0: no limit.
        truncated: What happens to truncated answers: `train` keeps them, `drop` leaves them out of the loss (overlong
            filtering).
        aggregate: How the losses of tokens become one number, as the path of an `Aggregate`.
        mini_batches: Optimiser steps per batch.
    """
    if truncated not in ("train", "drop"):
        raise PodiumError(f"dapo: truncated = {truncated!r} is not 'train' or 'drop'.")
    return Method(
        rollout=Sample(n=n),
        reward=(SignedReward(), Overlong(max_length=max_length, buffer=buffer, factor=penalty)),
        keep=(KeepMixed(varies, max_rounds=max_rounds), *((DropTruncated(),) if truncated == "drop" else ())),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high, dual=dual), aggregate=Aggregate(aggregate)),),
        updates=Updates(mini_batches=mini_batches),
    )
