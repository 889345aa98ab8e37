"""ARES (AEPO): difficulty-aware entropy shaping for adaptive reasoning."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.memories import DifficultyControl
from podium.method import Home, Method, Role
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import MarkPattern, ThinkingMoments
from podium.parts.keep import KeepWithin
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import WindowReward
from podium.strategies import Draw, Sample

__all__ = ["ares_aepo"]


# Words at which reasoning turns.
TRIGGERS = r"(?i)\b(wait|but|however|alternatively|maybe|perhaps|hmm|check|verify|because|therefore|so|then|instead)\b"


@recipe(
    summary="Difficulty-aware entropy shaping: less exploratory reasoning on easy tasks, more on hard ones.",
    citation="ARES: Multimodal Adaptive Reasoning via Difficulty-Aware Entropy Shaping, https://github.com/shawn0728/ARES",
    tags=("entropy", "difficulty", "overthinking", "reward shaping", "kl penalty", "multimodal"),
    protocol=ADAMW.replace(
        model="Qwen2.5-VL-7B-Instruct after a cold start",
        lr=1e-6,
        tasks=512,
        max_tokens=8192,
        max_turns=1,
        source="shawn0728/ARES: experiments/AEPO/config.yaml, experiments/AEPO/train.sh, verl/workers/actor/config.py",
    ),
    home=Home("rules"),
    presets={"paper": {"interval": 100, "top_k": 20, "max_rounds": 20}},
)
def ares_aepo(
    n: int = 8,
    window: int = 4,
    triggers: str = TRIGGERS,
    top_k: int = 0,
    kl: float = 0.01,
    interval: Count = ShareOfRun(0.1),
    target_kl: float = 0.01,
    clip_low: float = 0.2,
    clip_high: float = 0.3,
    dual: float = 3.0,
    top_p: float = 0.99,
    max_rounds: int = 20,
    mini_batches: int = 4,
) -> Method:
    """R = [right] + a bounded reward for n − n*, with n the number of trigger words after which the mean entropy of
    `window` tokens reaches a tracked threshold, and n* its mean over the tasks of the same difficulty: easy tasks are
    penalised above n*, medium ones on both sides, and hard ones are rewarded for more. k3 to the reference, with a
    weight per difficulty that is driven to a target KL and cut for wrong rollouts on easy tasks that have searched.
    GRPO's advantage; groups whose mean reward lies outside (0.01, 0.99) are replaced; clip to [0.8, 1.3], dual clip 3,
    4 updates per batch.

    The authors first imitate traces that grow with difficulty; here training starts from the model as it is. They move
    the KL weights every 100 iterations, here every tenth of the run.

    With alpha = 0 in the memory it is GRPO on the verdict. The release takes entropies over the k most likely tokens
    (`top_k`) and looks for triggers in the likeliest token; here they are looked for in the text written.

    Args:
        n: Rollouts per task (the group size).
        window: Tokens after a trigger over which entropy is averaged.
        triggers: Pattern (regular expression) of the words at which reasoning turns.
        top_k: Entropies that tell only this many likeliest tokens apart; 0: the whole distribution.
        kl: Coefficient of the KL penalty (k3), times the difficulty's weight.
        interval: Iterations between two updates of the KL weights, or a share of the run.
        target_kl: KL to which each difficulty's weight is driven.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        top_p: Nucleus sampling: the probability mass that is sampled from.
        max_rounds: Sampling rounds that may be spent on filling one batch; 0: no limit.
        mini_batches: Optimiser steps per batch.
    """
    bounds = Clip(clip_low, clip_high, dual=dual)
    return Method(
        rollout=Sample(n=n, draw=Draw(top_p=top_p)),
        annotate=(MarkPattern(triggers, into="token.trigger"), ThinkingMoments(window, top_k=top_k)),
        reward=(WindowReward(),),
        keep=(KeepWithin(max_rounds=max_rounds),),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=bounds), KL("k3", weight="rollout.kl_weight", coefficient=kl)),
        updates=Updates(mini_batches=mini_batches),
        memories=(DifficultyControl(interval=interval, target_kl=target_kl),),
        roles=(Role("ref"),),
    )
