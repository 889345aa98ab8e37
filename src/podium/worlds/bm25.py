"""Search by words, ranked by BM25 (the package bm25s). The index of a folder is kept in the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from podium.core.errors import PodiumError

__all__ = ["Bm25Search"]

WORD = r"(?u)\b\w+\b"  # a number of one digit is a word too
NO_STOPWORDS = "none"


class Bm25Search:
    """Finds the texts that fit a query best, by Lucene's BM25 with k1 = 1.5 and b = 0.75.

    The index is read from the cache where that has one of exactly these texts, else made and stored there in place of
    the last one for this `owner`; without a cache that can be written, it is made each time.
    """

    def __init__(self, texts: Sequence[str], stopwords: str, owner: str) -> None:
        try:
            import bm25s
        except ImportError as error:
            raise PodiumError("lookup:FOLDER needs the package bm25s: pip install 'podium-rl[search]'.") from error
        self._library: Any = bm25s
        self._stopwords: Any = [] if stopwords == NO_STOPWORDS else stopwords
        try:
            self._words([""])
        except ValueError as error:
            raise PodiumError(
                f"bm25s has no stop words for {stopwords!r}: take a language that it has, such as en or de, or none."
            ) from error
        place = _cache_place(owner, _digest(str(bm25s.__version__), stopwords, *texts))
        self.made = False  # rather than read from the cache
        self._index = _stored(bm25s, place) or self._make(texts, place)

    def best(self, query: str, count: int) -> list[int]:
        """The numbers of the texts that fit a query best, the best first; of equal ones the first."""
        words = [word for word in self._words([query])[0] if word]
        known = self._index.get_tokens_ids(words)
        if not known:
            return []
        scores = self._index.get_scores_from_ids(known)
        found = np.flatnonzero(scores > 0)
        if len(found) > count:  # sort only those that can be among the best
            found = found[scores[found] >= np.partition(scores[found], -count)[-count]]
        order = np.argsort(-scores[found], kind="stable")[:count]
        return [int(number) for number in found[order]]

    def _words(self, texts: Sequence[str]) -> list[list[str]]:
        return self._library.tokenize(
            list(texts), token_pattern=WORD, stopwords=self._stopwords, return_ids=False, show_progress=False
        )

    def _make(self, texts: Sequence[str], place: Path | None) -> Any:
        index = self._library.BM25(method="lucene", k1=1.5, b=0.75, backend="numpy")
        index.index(self._words(texts), show_progress=False)
        self.made = True
        if place is not None:
            _store(index, place)
        return index


def _digest(*texts: str) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8))
        digest.update(raw)
    return digest.hexdigest()


def _cache_place(owner: str, digest: str) -> Path | None:
    """The folder of an index: indexes of the same owner have names that begin alike."""
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # this user has no home
        return None
    return cache / "podium" / "bm25" / f"{_digest(owner)}-{digest}"


def _stored(library: Any, place: Path | None) -> Any:
    """The index in a folder; None: there is none that can be read."""
    if place is None or not place.is_dir():
        return None
    try:
        return library.BM25.load(str(place))
    except Exception:  # whatever a damaged file makes of the package
        shutil.rmtree(place, ignore_errors=True)
        return None


def _store(index: Any, place: Path) -> None:
    """Write an index to a folder that appears when it is complete, and remove the owner's others."""
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as part:
            index.save(f"{part}/index")
            os.rename(f"{part}/index", place)
        for other in place.parent.glob(f"{place.name.partition('-')[0]}-*"):
            if other != place:
                shutil.rmtree(other, ignore_errors=True)
