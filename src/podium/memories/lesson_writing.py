"""The data structure of a lesson library: admission, deduplication, and lessons tied to clusters of observations; and
how lessons are extracted from rollouts and found by their meaning."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from podium.core.errors import within
from podium.core.text_similarity import similarity_ratio
from podium.core.value import Value

__all__ = [
    "GOLDEN",
    "WARNING",
    "Cluster",
    "Lesson",
    "LessonEmbedder",
    "LessonExtractor",
    "Library",
    "WordEmbedder",
    "admit",
    "duplicate",
]

GOLDEN = ("principle", "method", "example")  # levels of lessons from successes
WARNING = ("mistake", "pattern", "diagnostic")  # levels of lessons from failures


@dataclass(frozen=True)
class Lesson:
    """A short text, its level (one of GOLDEN or WARNING) and the score by which it is ranked."""

    text: str
    level: str
    score: float


class LessonExtractor(Value):
    """Extracts lessons from a rollout by rules. Subclasses may ask a model instead.

    A success yields its actions (a method), its last action (an example) and, if excellent, how few turns it took (a
    principle); a failure its last actions (a mistake), a repeated action (a pattern) and its number of turns (a
    diagnostic).
    """

    last: int = 3  # actions of a failure that are shown, ≥ 1

    def __post_init__(self) -> None:
        within(self, "last", 1)

    def from_success(self, actions: Sequence[str], outcome: float, excellent: bool) -> Iterable[Lesson]:
        """Lessons of levels in GOLDEN from the actions of a rollout and its reward."""
        yield Lesson("this worked: " + "; ".join(actions), "method", outcome)
        yield Lesson(f"at the end: {actions[-1]}", "example", 0.8 * outcome)
        if excellent:
            yield Lesson(f"{len(actions)} turns are enough", "principle", outcome)

    def from_failure(self, actions: Sequence[str], outcome: float) -> Iterable[Lesson]:
        """Lessons of levels in WARNING."""
        yield Lesson("this failed: " + "; ".join(actions[-self.last :]), "mistake", abs(outcome))
        repeated = [a for i, a in enumerate(actions) if a in actions[:i]]
        if repeated:
            yield Lesson(f"do not repeat: {repeated[0]}", "pattern", 0.5)
        yield Lesson(f"{len(actions)} turns led nowhere", "diagnostic", 0.3)


class LessonEmbedder(Value):
    """Turns texts into vectors: lessons are then found by the cosine with the observation, not by their scores."""

    def __call__(self, texts: Sequence[str]) -> list[Sequence[float]]:
        raise NotImplementedError


class WordEmbedder(LessonEmbedder):
    """Counts of words, hashed to a fixed number of places: texts that share words are similar."""

    size: int = 256  # places, ≥ 1

    def __post_init__(self) -> None:
        within(self, "size", 1)

    def __call__(self, texts: Sequence[str]) -> list[Sequence[float]]:
        vectors: list[Sequence[float]] = []
        for text in texts:
            vector = [0.0] * self.size
            for word in text.lower().split():
                vector[zlib.crc32(word.strip(".,:;!?").encode()) % self.size] += 1.0
            vectors.append(vector)
        return vectors


@dataclass(frozen=True)
class Cluster:
    """Observations that are nearly the same, the lessons tied to them, and how often lessons were looked up there."""

    observation: str
    lessons: tuple[Lesson, ...] = ()
    uses: int = 0


def admit(lessons: Sequence[Lesson], new: Lesson, capacity: int) -> tuple[tuple[Lesson, ...], bool]:
    """The lessons of a level after a new one is offered, and whether it was admitted.

    In a full level it replaces the lowest score, the earliest of several, if its own is strictly higher.
    """
    if len(lessons) < capacity:
        return (*lessons, new), True
    lowest = min(range(len(lessons)), key=lambda i: lessons[i].score, default=None)
    if lowest is None or new.score <= lessons[lowest].score:
        return tuple(lessons), False
    return (*lessons[:lowest], *lessons[lowest + 1 :], new), True


def duplicate(lessons: Sequence[Lesson], text: str, threshold: float = 0.85, characters: int = 300) -> int | None:
    """The index of the first lesson with a similar beginning or a similar set of words; None: the text is new."""
    new = text.lower().strip()
    words = set(new.split())
    for index, lesson in enumerate(lessons):
        stored = lesson.text.lower().strip()
        other = set(stored.split())
        union = len(words | other)
        ratio = similarity_ratio(new[:characters], stored[:characters], threshold)
        if ratio > threshold or (union and len(words & other) / union > threshold):
            return index
    return None


@dataclass(frozen=True)
class Library:
    """Lessons by level, and the clusters of observations that they are tied to."""

    levels: Mapping[str, tuple[Lesson, ...]] = field(default_factory=dict)
    clusters: tuple[Cluster, ...] = ()
    embedder: LessonEmbedder | None = None  # None: lessons are ranked by their scores

    def __len__(self) -> int:
        return sum(map(len, self.levels.values()))

    def add(self, new: Lesson, capacity: int, threshold: float = 0.85, characters: int = 300) -> tuple[Library, bool]:
        """The library after a lesson is offered, and whether it was admitted; a duplicate raises the stored score."""
        zone = GOLDEN if new.level in GOLDEN else WARNING
        stored = [(level, i) for level in zone for i in range(len(self.levels.get(level, ())))]
        same = duplicate([self.levels[level][i] for level, i in stored], new.text, threshold, characters)
        if same is not None:
            level, index = stored[same]
            lessons = list(self.levels[level])
            lessons[index] = replace(lessons[index], score=max(lessons[index].score, new.score))
            return replace(self, levels={**self.levels, level: tuple(lessons)}), False
        after, admitted = admit(self.levels.get(new.level, ()), new, capacity)
        return replace(self, levels={**self.levels, new.level: after}), admitted

    def best(self, zone: Sequence[str], count: int, observation: str = "") -> tuple[Lesson, ...]:
        """The lessons of a zone (GOLDEN or WARNING) with the highest scores, or nearest to the observation if there is
        an embedder; the earliest first among equals."""
        lessons = [lesson for level in zone for lesson in self.levels.get(level, ())]
        rank = [lesson.score for lesson in lessons]
        if self.embedder is not None and lessons:
            sought, *vectors = self.embedder([observation, *(lesson.text for lesson in lessons)])
            rank = [_cosine(sought, vector) for vector in vectors]
        order = sorted(range(len(lessons)), key=lambda i: -rank[i])
        return tuple(lessons[i] for i in order[:count])

    def cluster(
        self, observation: str, threshold: float = 0.85, characters: int = 500, signature: int = 300
    ) -> int | None:
        """The index of the first cluster whose observation begins alike, by `signature` characters, and is similar;
        None: it has not been seen."""
        start = observation.strip()[:signature]
        for index, cluster in enumerate(self.clusters):
            if cluster.observation.strip()[:signature] != start:
                continue
            if similarity_ratio(cluster.observation[:characters], observation[:characters], threshold) >= threshold:
                return index
        return None

    def lessons(self, observation: str, golden: int = 2, warnings: int = 1) -> tuple[Lesson, ...]:
        """The lessons to show at an observation: those tied to its cluster, else the best of the library."""
        index = self.cluster(observation)
        tied = () if index is None else self.clusters[index].lessons
        return tied or (*self.best(GOLDEN, golden, observation), *self.best(WARNING, warnings, observation))

    def tie(self, observations: Sequence[str], most: int = 500) -> Library:
        """The library with a cluster for each observation, which fixes the lessons shown there from now on.

        Each occurrence of an observation is a use of its cluster. There are at most `most` clusters: a new one takes
        the place of the least used, the earliest of several.
        """
        library = self
        for observation, times in sorted(Counter(observations).items()):
            index = library.cluster(observation)
            clusters = list(library.clusters)
            if index is None:
                if len(clusters) >= most:
                    del clusters[min(range(len(clusters)), key=lambda i: clusters[i].uses)]
                clusters.append(Cluster(observation, library.lessons(observation), times))
            else:
                old = clusters[index]
                clusters[index] = Cluster(old.observation, library.lessons(observation), old.uses + times)
            library = replace(library, clusters=tuple(clusters))
        return library


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    length = math.sqrt(sum(x * x for x in a) * sum(x * x for x in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / length if length else 0.0
