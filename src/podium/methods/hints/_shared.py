"""What the recipes of this family share."""

from __future__ import annotations

from podium.core.schedule import Count, Steps

__all__ = ["_from"]


def _from(iteration: Count) -> float | Steps:
    """1 from the given iteration on and 0 before it."""
    return Steps((0.0, 1.0), (0, iteration)) if iteration else 1.0
