"""Texts that are nearly the same."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

__all__ = ["clusters", "similarity_ratio"]


def similarity_ratio(a: str, b: str, enough: float = 0.0) -> float:
    """How alike two texts are, in [0, 1]; 0 where that is known to be less than `enough`."""
    matcher = SequenceMatcher(None, a, b)
    if matcher.real_quick_ratio() < enough or matcher.quick_ratio() < enough:
        return 0.0
    return matcher.ratio()


def clusters(texts: Sequence[str], threshold: float) -> list[int]:
    """The number of each text's cluster: the first whose first member is at least so alike, else a new one."""
    first: list[str] = []
    known: dict[str, int] = {}
    for text in texts:
        if text not in known:
            near = (i for i, other in enumerate(first) if similarity_ratio(other, text, threshold) >= threshold)
            known[text] = next(near, len(first))
            if known[text] == len(first):
                first.append(text)
    return [known[text] for text in texts]
