"""CURE: critical-token-guided re-concatenation against entropy collapse."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.schedule import Count
from podium.core.shares import ShareOfRun, ShareOfTokens
from podium.core.updates import Updates
from podium.method import Home, Method, Phases, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import KeepMixed
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import Overlong
from podium.parts.shape import TrainShared
from podium.strategies import CriticalToken, Draw, Fork, Sample

__all__ = ["cure"]


@recipe(
    summary="Prevents entropy collapse: branches from random high-entropy tokens in one group, then plain DAPO.",
    citation="CURE, https://github.com/bytedance/CURE",
    extends="dapo",
    tags=("entropy collapse", "exploration", "entropy", "dynamic sampling"),
    protocol=Protocol(
        model="Qwen2.5-Math-7B",
        lr=1e-6,
        betas=(0.9, 0.999),
        weight_decay=0.1,
        warmup=10,
        schedule="constant",
        clip=1.0,
        tasks=512,
        max_tokens=3584,
        pool=17_000,
        source="bytedance/CURE recipe/CURE_First_Stage/run_cure_stage_1.sh, CURE_Second_Stage/run_cure_stage_2.sh",
    ),
    home=Home("sums", level=3, max_tokens=64),
    presets={
        "paper": {"first": 300, "characters": 2, "max_prompt": 1500, "max_length": 3584, "buffer": 512},
        "stage-1": {"stage": 1},
        "stage-2": {"stage": 2},
    },
)
def cure(
    n: int = 4,
    branches: int = 3,
    candidates: int = 20,
    order: str = "entropy",
    characters: int = 1,
    stage: int = 0,
    first: Count = ShareOfRun(0.5),
    short: float = 0.725,
    max_prompt: Count = ShareOfTokens(0.6),
    max_length: Count = ShareOfTokens(1.0),
    buffer: Count = ShareOfTokens(0.15),
    penalty: float = 0.5,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual: float = 10.0,
    max_rounds: int = 10,
    mini_batches: int = 16,
) -> Method:
    """Each of n rollouts is cut at one of its `candidates` tokens of highest entropy and continued `branches` times:
    the copied part carries no loss. DAPO's advantage over all n (1 + branches), its clip, filter and overlong reward,
    for `first` iterations with shorter answers. Then DAPO with as many ordinary rollouts.

    `cure@stage-1` and `cure@stage-2` are the two stages alone. branches = 0 is DAPO with n. If a rollout has no
    candidate, its branches are sampled from the prompt. The release hands on the checkpoint of step 300 and starts
    the optimiser anew there, which does not happen here; its second stage has no end, so half of a run is ours. It asks
    for candidates of two characters (`cure@paper`), of which a vocabulary of single characters has none. Its rewards
    are 1 and −1, so that a penalty of 1 is half of what separates right from wrong; on rewards of 1 and 0 that is 0.5.

    Args:
        n: Rollouts per task before branching.
        branches: Continuations of each.
        candidates: Tokens of highest entropy among which the cut is drawn.
        order: `entropy` cuts among the tokens of highest entropy, `random` among all eligible ones.
        characters: Characters that a candidate has at least; the first token is never one.
        stage: 1 (branching) or 2 (plain DAPO) alone; 0: one after the other.
        first: Iterations of the first stage; by default half of the run.
        short: Length limit of the first stage, as a share of the run's.
        max_prompt: Tokens of question and copied part together at most; longer ones are cut earlier.
        max_length: Length limit of an answer in tokens, where the overlong penalty is full; by default `max_tokens`.
        buffer: Tokens before the limit over which the penalty grows from 0; by default a share of `max_tokens`.
        penalty: Reward subtracted at the limit; 0: no overlong penalty.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        max_rounds: Sampling rounds that may be spent on filling one batch; 0: no limit.
        mini_batches: Optimiser steps per batch.
    """
    if stage not in (0, 1, 2):
        raise PodiumError(f"cure: stage = {stage!r} is not 0, 1 or 2.")

    def overlong(share: float) -> tuple[Overlong, ...]:
        limit = ShareOfTokens(max_length.share * share) if isinstance(max_length, ShareOfTokens) else max_length * share
        return (Overlong(max_length=limit, buffer=buffer, factor=penalty),) if penalty else ()

    plain = Method(
        "dapo",
        rollout=Sample(n=n * (1 + branches)),
        reward=overlong(1.0),
        keep=(KeepMixed("rollout.correct", max_rounds=max_rounds),),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high, dual=dual)),),
        updates=Updates(mini_batches=mini_batches),
    )
    places = CriticalToken(candidates, characters, order)
    fork = Fork(n=n, fork_points=places, branches=branches, prompt=max_prompt, draw=Draw(token_share=short))
    branched = plain.with_(name="branching", rollout=fork, reward=overlong(short), metric=ReportMean("rollout.fork"))
    branched = branched | TrainShared("new")
    return {0: Phases(branched.until(first), plain), 1: branched, 2: plain}[stage]
