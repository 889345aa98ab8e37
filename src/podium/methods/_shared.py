"""TODO shared"""

from __future__ import annotations

from podium.method import Method, Role
from podium.parts.objective import KL

__all__ = ["SELECTED", "anchored"]


SELECTED = "token.selected"


def anchored(method: Method, kl: KL) -> Method:
    """The method held to its reference by `kl`, unless the coefficient is 0."""
    return method if kl.coefficient == 0 else method | kl | Role("ref")
