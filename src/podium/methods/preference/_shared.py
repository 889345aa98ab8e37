"""What the recipes on preference pairs share: where the pairs come from."""

from __future__ import annotations

from podium.method import Method
from podium.parts.keep import KeepExtremes
from podium.strategies import AttemptedPairs, Draw, RecordedPairs, Sample

__all__ = ["SAMPLED", "WRITTEN", "paired"]

WRITTEN, SAMPLED = "world", "best-worst"  # sources of pairs besides a file


def paired(
    method: Method,
    source: str,
    *,
    skip: bool = False,
    labels: str = "",
    samples: int = 5,
    temperature: float = 0.8,
    styles: tuple[str, str] = ("short", "short"),
    flip: float = 0.0,
) -> Method:
    """The method on the world's own right and wrong attempts, on the best and worst of samples, or on a file."""
    if source == WRITTEN:
        return method.with_(rollout=AttemptedPairs(styles, flip))
    if source == SAMPLED:
        return method.with_(rollout=Sample(samples, draw=Draw(temperature=temperature)), keep=KeepExtremes())
    return method.with_(rollout=RecordedPairs(source, skip=skip, label_field=labels))
