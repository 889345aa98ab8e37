"""Texts that are nearly the same."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

__all__ = ["clusters", "similarity_ratio"]

LONGEST = 4_000  # characters, which take at most about 0.2 s


def similarity_ratio(a: str, b: str, enough: float = 0.0) -> float:
    """The similarity of two texts, in [0, 1]; 0 where a quick bound shows that it is below `enough`.

    Of longer texts the first `LONGEST` characters decide, since the time grows with the third power of the length.
    """
    matcher = SequenceMatcher(None, a, b)
    if matcher.real_quick_ratio() < enough or matcher.quick_ratio() < enough:
        return 0.0
    if max(len(a), len(b)) > LONGEST:
        matcher = SequenceMatcher(None, a[:LONGEST], b[:LONGEST])
    return matcher.ratio()


def clusters(texts: Sequence[str], threshold: float) -> list[int]:
    """The cluster of each text: the first whose first member has at least the similarity `threshold`, or a new one."""
    first: list[str] = []  # of each cluster
    cluster: dict[str, int] = {}
    for text in texts:
        if text not in cluster:
            near = (i for i, other in enumerate(first) if similarity_ratio(other, text, threshold) >= threshold)
            cluster[text] = next(near, len(first))
            if cluster[text] == len(first):
                first.append(text)
    return [cluster[text] for text in texts]
