"""DLER: doing the length penalty right, by truncation and batch-wise normalisation."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfTokens
from podium.core.updates import Updates
from podium.method import Home, Method
from podium.methods._shared import ADAMW, anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import KeepMixed
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import LengthLimit
from podium.parts.shape import Whiten
from podium.strategies import Sample

__all__ = ["dler"]


@recipe(
    summary="Hard truncation as length penalty, made stable by batch-wise normalisation, clip-higher and filtering.",
    citation="DLER: Doing Length Penalty Right, https://github.com/NVlabs/DLER",
    extends="dapo",
    tags=("length penalty", "overthinking", "short reasoning", "dynamic sampling", "efficiency"),
    protocol=ADAMW.replace(
        model="DeepSeek-R1-Distill-Qwen-1.5B",
        lr=1e-6,
        tasks=512,
        max_tokens=4000,
        source="NVlabs/DLER dler_slurm.sh",
    ),
    home=Home("sums", level=2, max_tokens=56),
    presets={
        "paper": {"limits": (4000,)},
        "difficulty-aware": {"limits": (ShareOfTokens(0.5), ShareOfTokens(0.25)), "thresholds": (0.5,)},
        "strong-model": {"limits": (ShareOfTokens(0.75),), "clip_high": 0.36},
    },
)
def dler(
    n: int = 16,
    limits: tuple[Count, ...] = (ShareOfTokens(0.5),),
    thresholds: tuple[float, ...] = (),
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual: float = 10.0,
    kl: float = 0.0005,
    max_rounds: int = 10,
    mini_batches: int = 8,
) -> Method:
    """Rewards of answers that were truncated or exceed the limit are 0; groups whose rewards are all equal are
    replaced; A = r − group mean, whitened over the tokens of the batch; clip 0.2/0.28, dual clip 10, token mean, k3.

    Without limit and KL penalty it is REINFORCE++-baseline under DAPO's clip and sampling. The limit is half of what
    the run samples: the authors' model wrote 7,700 tokens on average and was cut at 4000 (`dler@paper`).
    `dler@difficulty-aware`, in the paper 150 iterations from a model trained with `dler`, halves the limit of easy
    tasks (pass rate ≥ 0.5); `dler@strong-model` has 6000 in place of 4000. Merging the result back into its base model
    needs no training: `podium merge RUN --out DIR` keeps the quarter of the weights that changed most.

    Args:
        n: Rollouts per task (the group size).
        limits: Longest rewarded answer in tokens; one more than thresholds, from the hardest tasks to the easiest.
        thresholds: Pass rates of the group at which the next limit begins, increasing.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        max_rounds: Sampling rounds that may be spent on filling one batch; 0: no limit.
        mini_batches: Optimiser steps per batch.
    """
    method = Method(
        rollout=Sample(n=n),
        reward=(LengthLimit(limits, thresholds),),
        keep=(KeepMixed(max_rounds=max_rounds),),
        advantage=Normalize(scale="none"),
        shape=(Whiten(),),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high, dual=dual)),),
        updates=Updates(mini_batches=mini_batches),
    )
    return anchored(method, KL("k3", coefficient=kl))
