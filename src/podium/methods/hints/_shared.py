"""TODO shared"""

from __future__ import annotations

from podium.core.schedule import Steps

__all__ = ["_from"]


def _from(iteration: int) -> float | Steps:
    """On from an iteration."""
    return Steps((0.0, 1.0), (0, iteration)) if iteration else 1.0
