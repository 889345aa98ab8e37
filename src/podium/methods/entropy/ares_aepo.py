"""TODO"""

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
    summary="Reward fewer moments of uncertain thought on easy tasks and more on hard ones; a KL weight a difficulty.",
    citation="ARES: Multimodal Adaptive Reasoning via Difficulty-Aware Entropy Shaping, https://github.com/shawn0728/ARES",
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
    """R = [right] + a bounded reward for n − n*, with n the trigger words after which the mean entropy of `window`
    tokens reaches a tracked threshold, and n* its mean over the tasks of the same difficulty: a penalty above n* on
    easy tasks, for both sides on medium ones, a reward for more on hard ones. k3 to the reference, its weight by
    difficulty driven to a target KL and cut for wrong rollouts on easy tasks that have searched. GRPO's advantage;
    groups whose mean reward lies outside (0.01, 0.99) are replaced.

    With alpha = 0 in the memory it is GRPO on the verdict. The release reads entropies off the k most likely tokens
    (`top_k`; 0 is the whole distribution) and looks for triggers in the likeliest token, here in what was written.
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
