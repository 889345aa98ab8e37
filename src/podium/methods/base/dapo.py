"""DAPO: decoupled clip and dynamic sampling policy optimisation."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import DropTruncated, KeepMixed
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import Overlong
from podium.strategies import Sample

__all__ = ["dapo"]


@recipe(
    summary="GRPO with clip-higher, dynamic sampling, a token-level loss and a soft overlong penalty; no KL.",
    citation="Yu et al. 2025, DAPO, https://arxiv.org/abs/2503.14476",
    tags=("clipping", "dynamic sampling", "zero-variance groups", "overlong", "length penalty", "token-level"),
)
def dapo(
    n: int = 16,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual: float = 10.0,
    max_length: int = 20480,
    buffer: int = 4096,
    penalty: float = 1.0,
    max_rounds: int = 10,
    truncated: str = "train",
) -> Method:
    """GRPO's advantage; clip to [1 − 0.2, 1 + 0.28] and dual clip 10; the mean over all tokens of the update; groups
    whose rewards are all equal are dropped and replaced by sampling more; the reward falls by up to `penalty` over the
    last `buffer` tokens before `max_length`. No KL penalty.

    With clip_high = 0.2, no dual clip, penalty = 0 and without `KeepMixed` it is GRPO with a token mean.

    Args:
        n: Rollouts per task (the group size).
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        max_length: Length limit of an answer in tokens, where the overlong penalty is full.
        buffer: Tokens before the limit over which the penalty grows from 0.
        penalty: Reward subtracted at the limit; 0: no overlong penalty.
        max_rounds: Sampling rounds that may be spent on filling one batch; 0: no limit.
        truncated: What happens to truncated answers: `train` keeps them, `drop` leaves them out of the loss (overlong
            filtering).
    """
    if truncated not in ("train", "drop"):
        raise PodiumError(f"dapo: truncated = {truncated!r} is not 'train' or 'drop'.")
    return Method(
        rollout=Sample(n=n),
        reward=(Overlong(max_length=max_length, buffer=buffer, factor=penalty),),
        keep=(KeepMixed(max_rounds=max_rounds), *((DropTruncated(),) if truncated == "drop" else ())),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high, dual=dual)),),
    )
