"""Cutting a worked solution into segments of about equal size."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise

__all__ = ["prefixes_of", "solution_segments"]

NUMBERED = re.compile(r"\n(?=\s*\d+[.)]\s)")
HEADING = re.compile(r"\n(?=\s*(?:#+\s|\*\*[^*\n]+\*\*))")
SENTENCE = re.compile(r"(?<=[.!?])\s+")


def solution_segments(text: str, count: int = 4) -> list[str]:
    """At most `count` segments of a solution, as the release of SPARKLE cuts it.

    With P ≥ S paragraphs (between blank lines) segment i holds paragraphs ⌊i P / S⌋ … ⌊(i + 1) P / S⌋ − 1. With fewer,
    the text is cut at numbered items, else at headings, if there are that many; else into ⌈n / S⌉ sentences each, which
    may give fewer segments.
    """
    paragraphs = [p.strip() for p in re.split(r"\n\s*\n", text) if p.strip()]
    if len(paragraphs) >= count:
        return _shares(paragraphs, count, "\n\n")
    for mark in (NUMBERED, HEADING):
        pieces = [p.strip() for p in mark.split(text) if p.strip()]
        if len(pieces) >= count:
            return _shares(pieces, count, "\n")
    sentences = [s.strip() for s in SENTENCE.split(text.strip()) if s.strip()]
    size = math.ceil(len(sentences) / count)
    return [" ".join(sentences[i : i + size]) for i in range(0, len(sentences), size or 1)]


def _shares(pieces: Sequence[str], count: int, between: str) -> list[str]:
    edges = [i * len(pieces) // count for i in range(count + 1)]
    return [between.join(pieces[start:end]) for start, end in pairwise(edges)]


def prefixes_of(segments: Sequence[str]) -> list[str]:
    """The first segment, the first two, …, joined by line breaks."""
    return ["\n".join(segments[: level + 1]) for level in range(len(segments))]
