"""What recipes of several families share."""

from __future__ import annotations

from podium.method import Method, Role
from podium.parts.objective import KL, Clip

__all__ = ["SELECTED", "anchored", "clip_of"]


SELECTED = "token.selected"  # the boolean column in which `SelectTokens` marks its tokens


def clip_of(low: float, high: float, updates: int, dual: float | None = None) -> Clip | None:
    """The clip range of the importance ratio; None for a single update per batch, in which the ratio is 1."""
    return Clip(low, high, dual=dual) if updates > 1 else None


def anchored(method: Method, kl: KL) -> Method:
    """The method with a KL penalty to the reference policy, or unchanged where the coefficient is 0."""
    return method if kl.coefficient == 0 else method | kl | Role("ref")
