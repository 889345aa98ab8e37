"""A library of short lessons that grows from the rollouts themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from podium.core.text_similarity import similarity_ratio

__all__ = ["GOLDEN", "WARNING", "Cluster", "Lesson", "Library", "admit", "duplicate"]

GOLDEN = ("principle", "method", "example")
WARNING = ("mistake", "pattern", "diagnostic")


@dataclass(frozen=True)
class Lesson:
    """A text worth showing, and how good it was."""

    text: str
    level: str
    score: float


@dataclass(frozen=True)
class Cluster:
    """Observations that are nearly the same, and the lessons tied to them."""

    observation: str
    lessons: tuple[Lesson, ...] = ()


def admit(lessons: Sequence[Lesson], new: Lesson, capacity: int) -> tuple[tuple[Lesson, ...], bool]:
    """The lessons of a level after one more is offered, and whether it got in.

    A full level gives up its lowest score, the earliest of several, to a strictly higher one.
    """
    if len(lessons) < capacity:
        return (*lessons, new), True
    lowest = min(range(len(lessons)), key=lambda i: lessons[i].score, default=None)
    if lowest is None or new.score <= lessons[lowest].score:
        return tuple(lessons), False
    return (*lessons[:lowest], *lessons[lowest + 1 :], new), True


def duplicate(lessons: Sequence[Lesson], text: str, threshold: float = 0.85, characters: int = 300) -> int | None:
    """The first lesson that says the same: alike in its first characters, or in its set of words; None: it is new."""
    said = text.lower().strip()
    words = set(said.split())
    for place, lesson in enumerate(lessons):
        stored = lesson.text.lower().strip()
        other = set(stored.split())
        union = len(words | other)
        alike = similarity_ratio(said[:characters], stored[:characters], threshold)
        if alike > threshold or (union and len(words & other) / union > threshold):
            return place
    return None


@dataclass(frozen=True)
class Library:
    """Lessons by level, the good ones and the warnings, and the observations that they are tied to."""

    levels: Mapping[str, tuple[Lesson, ...]] = field(default_factory=dict)
    clusters: tuple[Cluster, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.levels.values()))

    def add(self, new: Lesson, capacity: int, threshold: float = 0.85, characters: int = 300) -> tuple[Library, bool]:
        """The library after a lesson is offered, and whether it got in; a known one raises the score it is known by."""
        zone = GOLDEN if new.level in GOLDEN else WARNING
        known = [(level, i) for level in zone for i in range(len(self.levels.get(level, ())))]
        found = duplicate([self.levels[level][i] for level, i in known], new.text, threshold, characters)
        if found is not None:
            level, place = known[found]
            row = list(self.levels[level])
            row[place] = replace(row[place], score=max(row[place].score, new.score))
            return replace(self, levels={**self.levels, level: tuple(row)}), False
        row_after, admitted = admit(self.levels.get(new.level, ()), new, capacity)
        return replace(self, levels={**self.levels, new.level: row_after}), admitted

    def best(self, zone: Sequence[str], count: int) -> tuple[Lesson, ...]:
        """The lessons of a zone with the highest scores, the earliest first among equals."""
        found = [lesson for level in zone for lesson in self.levels.get(level, ())]
        return tuple(sorted(found, key=lambda lesson: -lesson.score)[:count])

    def cluster(self, observation: str, threshold: float = 0.85, characters: int = 500) -> int | None:
        """The first cluster that the observation belongs to; None: it has not been seen."""
        for place, cluster in enumerate(self.clusters):
            if similarity_ratio(cluster.observation[:characters], observation[:characters], threshold) >= threshold:
                return place
        return None

    def lessons(self, observation: str, golden: int = 2, warnings: int = 1) -> tuple[Lesson, ...]:
        """What to show at an observation: what is tied to its cluster, else the best there is."""
        place = self.cluster(observation)
        tied = () if place is None else self.clusters[place].lessons
        return tied or (*self.best(GOLDEN, golden), *self.best(WARNING, warnings))

    def tie(self, observations: Sequence[str], most: int = 500) -> Library:
        """The library in which each observation has a cluster, with the lessons that it is shown from now on."""
        library = self
        for observation in observations:
            place = library.cluster(observation)
            if place is None:
                made = Cluster(observation, library.lessons(observation))
                library = replace(library, clusters=(*library.clusters, made)[-most:])
            elif not library.clusters[place].lessons:
                made = replace(library.clusters[place], lessons=library.lessons(observation))
                rows = (*library.clusters[:place], made, *library.clusters[place + 1 :])
                library = replace(library, clusters=rows)
        return library
