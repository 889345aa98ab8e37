"""A rule of the doctor, and what it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from podium.analysis.health.course import Course

__all__ = ["Diagnosis", "Rule", "Verdict", "from_share", "rule"]

Verdict = tuple[str, str] | None  # what was seen, and the command that mends it; None: nothing


@dataclass(frozen=True)
class Diagnosis:
    """An illness of a run: what was seen, why it matters, and what to do about it."""

    rule: str  # the name of the illness
    seen: str
    matters: str
    mend: str  # a command, perhaps with a sentence

    @property
    def text(self) -> str:
        """All of it in a line."""
        return f"{self.rule}: {self.seen} {self.matters} Remedy: {self.mend}"


@dataclass(frozen=True)
class Rule:
    """One illness: how it shows in the course of a run."""

    name: str
    matters: str
    look: Callable[[Course], Verdict]
    least: int  # iterations of training before it can show

    def __call__(self, course: Course) -> Diagnosis | None:
        if len(course.trained) < self.least:
            return None
        verdict = self.look(course)
        return None if verdict is None else Diagnosis(self.name, verdict[0], self.matters, verdict[1])


def from_share(least: float, share: float, seen: str, mend: str) -> Verdict:
    """What is said of a share that has reached `least`; it stands in `seen` at {share}, in per cent."""
    return None if share < least else (seen.format(share=f"{100 * share:.0f} %"), mend)


def rule(name: str, matters: str, *, least: int = 5) -> Callable[[Callable[[Course], Verdict]], Rule]:
    """Make a rule of a function that looks at the course of a run."""
    return lambda look: Rule(name, matters, look, least)
