"""What recipes of several families share."""

from __future__ import annotations

from podium.method import Method, Role
from podium.parts.objective import KL

__all__ = ["SELECTED", "anchored"]


SELECTED = "token.selected"  # the boolean column in which `SelectTokens` marks its tokens


def anchored(method: Method, kl: KL) -> Method:
    """The method with a KL penalty to the reference policy, or unchanged where the coefficient is 0."""
    return method if kl.coefficient == 0 else method | kl | Role("ref")
