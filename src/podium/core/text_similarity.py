"""Texts that are nearly the same."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

__all__ = ["clusters", "rouge_l", "similarity_ratio"]

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


def rouge_l(a: str, b: str) -> float:
    """ROUGE-L of two texts, in [0, 1]: 2 L / (m + n) for the longest common subsequence L of their m and n words."""
    left, right = a.split(), b.split()
    row = [0] * (len(right) + 1)  # lengths of common subsequences with the words of `a` so far
    for word in left:
        before = row
        row = [0]
        for place, other in enumerate(right):
            row.append(before[place] + 1 if word == other else max(before[place + 1], row[-1]))
    return 2 * row[-1] / (len(left) + len(right)) if left or right else 1.0
