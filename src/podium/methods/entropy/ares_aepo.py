"""ARES (AEPO): difficulty-aware entropy shaping for adaptive reasoning."""

from __future__ import annotations

from podium.memories import DifficultyControl
from podium.method import Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import MarkPattern, ThinkingMoments
from podium.parts.keep import KeepWithin
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import WindowReward
from podium.strategies import Sample

__all__ = ["ares_aepo"]


# Words at which reasoning turns.
TRIGGERS = r"(?i)\b(wait|but|however|alternatively|maybe|perhaps|hmm|check|verify|because|therefore|so|then|instead)\b"


@recipe(
    summary="Difficulty-aware entropy shaping: less exploratory reasoning on easy tasks, more on hard ones.",
    citation="ARES: Multimodal Adaptive Reasoning via Difficulty-Aware Entropy Shaping, https://github.com/shawn0728/ARES",
    tags=("entropy", "difficulty", "overthinking", "reward shaping", "kl penalty", "multimodal"),
)
def ares_aepo(
    n: int = 8,
    window: int = 4,
    triggers: str = TRIGGERS,
    top_k: int = 0,
    kl: float = 0.01,
    interval: int = 100,
    target_kl: float = 0.01,
    clip: float = 0.2,
    max_rounds: int = 10,
) -> Method:
    """R = [right] + a bounded reward for n − n*, with n the number of trigger words after which the mean entropy of
    `window` tokens reaches a tracked threshold, and n* its mean over the tasks of the same difficulty: easy tasks are
    penalised above n*, medium ones on both sides, and hard ones are rewarded for more. k3 to the reference, with a
    weight per difficulty that is driven to a target KL and cut for wrong rollouts on easy tasks that have searched.
    GRPO's advantage; groups whose mean reward lies outside (0.01, 0.99) are replaced.

    With alpha = 0 in the memory it is GRPO on the verdict. The release takes entropies over the k most likely tokens
    (`top_k`) and looks for triggers in the likeliest token; here they are looked for in the text written.

    Args:
        n: Rollouts per task (the group size).
        window: Tokens after a trigger over which entropy is averaged.
        triggers: Pattern (regular expression) of the words at which reasoning turns.
        top_k: Entropies that tell only this many likeliest tokens apart; 0: the whole distribution.
        kl: Coefficient of the KL penalty (k3), times the difficulty's weight.
        interval: Iterations between two updates of the KL weights.
        target_kl: KL to which each difficulty's weight is driven.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        max_rounds: Sampling rounds that may be spent on filling one batch; 0: no limit.
    """
    method = Method(
        rollout=Sample(n=n),
        annotate=(MarkPattern(triggers, into="token.trigger"), ThinkingMoments(window, top_k=top_k)),
        reward=(WindowReward(),),
        keep=(KeepWithin(max_rounds=max_rounds),),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)), KL("k3", weight="rollout.kl_weight", coefficient=kl)),
        memories=(DifficultyControl(interval=interval, target_kl=target_kl),),
        roles=(Role("ref"),),
    )
    return method
