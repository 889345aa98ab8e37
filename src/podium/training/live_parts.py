"""Parts that read the current policy are evaluated anew at each update; all others once, before the first one."""

from __future__ import annotations

from collections.abc import Sequence

from podium.core.part import Metric, Shape
from podium.core.signal import Signal
from podium.method import Method

__all__ = ["fixed_metrics", "fixed_shapes", "live_parts", "signals_before_updates"]


def fixed_shapes(method: Method) -> list[Shape]:
    """The shape parts that are evaluated once, before the first update."""
    return [part for part in method.shape if not part.live]


def fixed_metrics(method: Method) -> list[Metric]:
    """The metrics that are evaluated once, before the first update."""
    live = live_parts(method)
    return [part for part in method.metric if part not in live]


def live_parts(method: Method) -> list[Shape | Metric]:
    """What is evaluated at each update: the parts that read the current policy, and metrics of what they write."""
    shapes = [part for part in method.shape if part.live]
    written = {column for part in shapes for column in part.provides}
    return [*shapes, *(m for m in method.metric if m.live or written & {n for n in m.needs if isinstance(n, str)})]


def signals_before_updates(method: Method, live: Sequence[Shape | Metric]) -> list[Signal]:
    """The signals that updates and memories read and that must be computed before the weights move."""
    readers = (*method.objective, *live, *method.memories)
    needed = [need for reader in readers for need in reader.needs if isinstance(need, Signal)]
    if method.updates.single:
        # At the only update of a batch the old policy is the current one: its signals come with the update.
        parts = (*method.objective, *live)
        current = [need for part in parts for need in part.needs if isinstance(need, Signal) and need.of == "now"]
        coming = {Signal(s.name, of="old", level=s.level, **dict(s.settings)) for s in current}
        remembered = {need for memory in method.memories for need in memory.needs}
        needed = [s for s in needed if s not in coming or s in remembered]
    return [s for s in needed if s.of != "now"]
