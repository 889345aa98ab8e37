"""What recipes of several families share."""

from __future__ import annotations

from podium.core.schedule import Number
from podium.method import Method, Protocol, Role
from podium.parts.objective import KL, Clip

__all__ = ["ADAMW", "SELECTED", "anchored", "clip_for"]


# AdamW at a constant rate with torch's betas and weight decay: verl's defaults, which most published runs keep.
ADAMW = Protocol(betas=(0.9, 0.999), weight_decay=0.01, warmup=0, schedule="constant", clip=1.0)
SELECTED = "token.selected"  # the boolean column in which `SelectTokens` marks its tokens


def anchored(method: Method, kl: KL) -> Method:
    """The method with a KL penalty to the reference policy, or unchanged where the coefficient is 0."""
    return method if kl.coefficient == 0 else method | kl | Role("ref")


def clip_for(mini_batches: int, low: Number | str, high: Number, dual: float | None = None) -> Clip | None:
    """PPO's clip; none where a batch is trained in a single update, at which every importance ratio is 1."""
    return None if mini_batches == 1 else Clip(low, high, dual=dual)
