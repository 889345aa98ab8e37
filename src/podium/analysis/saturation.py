"""What is still learned after the training tasks are solved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["post_saturation", "saturation"]


def saturation(accuracy: Sequence[float], slack: float = 0.01, window: int = 5) -> int | None:
    """The first iteration, counted from 1, whose mean training accuracy over the window reaches 1 − slack."""
    for end in range(window, len(accuracy) + 1):
        if sum(accuracy[end - window : end]) / window >= 1 - slack:
            return end
    return None


def post_saturation(
    accuracy: Sequence[float], test: Mapping[int, float], slack: float = 0.01, window: int = 5
) -> dict[int, float]:
    """Held-out accuracy after saturation minus that at it, by iteration; empty while nothing is saturated.

    `test` holds the iterations at which it was measured; what it was at saturation is the last measurement until then.
    """
    start = saturation(accuracy, slack, window)
    before = [t for t in sorted(test) if start is not None and t <= start]
    if start is None or not before:
        return {}
    return {t: test[t] - test[before[-1]] for t in sorted(test) if t > start}
