"""The data structure of a lesson library: admission, deduplication, and lessons tied to clusters of observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from podium.core.text_similarity import similarity_ratio

__all__ = ["GOLDEN", "WARNING", "Cluster", "Lesson", "Library", "admit", "duplicate"]

GOLDEN = ("principle", "method", "example")  # levels of lessons from successes
WARNING = ("mistake", "pattern", "diagnostic")  # levels of lessons from failures


@dataclass(frozen=True)
class Lesson:
    """A short text, its level (one of GOLDEN or WARNING) and the score by which it is ranked."""

    text: str
    level: str
    score: float


@dataclass(frozen=True)
class Cluster:
    """Observations that are nearly the same, and the lessons tied to them."""

    observation: str
    lessons: tuple[Lesson, ...] = ()


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

    def best(self, zone: Sequence[str], count: int) -> tuple[Lesson, ...]:
        """The lessons with the highest scores in a zone (GOLDEN or WARNING), the earliest first among equals."""
        lessons = [lesson for level in zone for lesson in self.levels.get(level, ())]
        return tuple(sorted(lessons, key=lambda lesson: -lesson.score)[:count])

    def cluster(self, observation: str, threshold: float = 0.85, characters: int = 500) -> int | None:
        """The index of the first cluster with a similar observation; None: it has not been seen."""
        for index, cluster in enumerate(self.clusters):
            if similarity_ratio(cluster.observation[:characters], observation[:characters], threshold) >= threshold:
                return index
        return None

    def lessons(self, observation: str, golden: int = 2, warnings: int = 1) -> tuple[Lesson, ...]:
        """The lessons to show at an observation: those tied to its cluster, else the best of the library."""
        index = self.cluster(observation)
        tied = () if index is None else self.clusters[index].lessons
        return tied or (*self.best(GOLDEN, golden), *self.best(WARNING, warnings))

    def tie(self, observations: Sequence[str], most: int = 500) -> Library:
        """The library with a cluster for each observation, which fixes the lessons shown there from now on."""
        library = self
        for observation in observations:
            index = library.cluster(observation)
            if index is None:
                new = Cluster(observation, library.lessons(observation))
                library = replace(library, clusters=(*library.clusters, new)[-most:])
            elif not library.clusters[index].lessons:
                new = replace(library.clusters[index], lessons=library.lessons(observation))
                clusters = (*library.clusters[:index], new, *library.clusters[index + 1 :])
                library = replace(library, clusters=clusters)
        return library
