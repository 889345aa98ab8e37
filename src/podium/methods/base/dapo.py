"""TODO"""

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
    summary="GRPO with a higher upper clip, groups without signal replaced, token mean, a soft length penalty.",
    citation="Yu et al. 2025, DAPO, https://arxiv.org/abs/2503.14476",
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
    whose rewards are all equal are dropped and made up for by sampling more; reward falls by up to `penalty` over
    the last `buffer` tokens before `max_length`. No KL. `truncated="drop"` leaves answers that were cut off out of the
    loss (overlong filtering).

    With clip_high = 0.2, no dual clip, penalty = 0 and without KeepMixed it is GRPO with a token mean.
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
