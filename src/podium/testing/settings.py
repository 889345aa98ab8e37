"""Other settings of a part: what to try for each field, and which fields make no difference.

Numbers are changed, switches flipped, options taken from the error that `one_of` raises, names of columns replaced by
other names. A field may matter only together with another one, so those that look inert are tried again from every
setting that was found to matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from podium.core.errors import PodiumError
from podium.core.memory import Memory
from podium.core.part import Part
from podium.core.schedule import Schedule
from podium.core.term import Aggregate
from podium.core.value import Value
from podium.memories.lesson_writing import LessonExtractor, WordEmbedder
from podium.parts.advantage import MixtureComponent, Normalize, Returns
from podium.parts.objective.clip import Clip, Target
from podium.parts.objective.soft_region import DivergenceMask, SoftGate
from podium.testing.bench import Bench
from podium.testing.subject import difference

__all__ = ["ALTERNATIVES", "Exploration", "explore", "failure_of"]

Path = tuple[str, ...]  # of a field, or of a field of a field

# What to try where it cannot be guessed, by the class that declares the field.
ALTERNATIVES: dict[str, dict[str, tuple[Any, ...]]] = {
    "Aggregate": {
        "path": (
            "token sum",
            "token mean, rollout mean",
            "token sum / 7, rollout mean",
            "token sum / 7, rollout mean of all",
            "token mean, turn mean, rollout mean",
            "token mean, rollout mean, group mean",
            "rollout sum",
            "turn sum",
            "rollout mean, group mean",
            "group sum",
        )
    },
    "Term": {
        "aggregate": tuple(
            Aggregate(f"{level} sum / length", length=3.0) for level in ("token", "turn", "rollout", "group", "batch")
        )
    },
    "PlanningPhrases": {"sizes": ((1,), (2,))},
    "Cascade": {"checks": (("rollout.interface_matches", "rollout.parses"),)},
    "AlternativeAdvantage": {"part": (Normalize(), Returns())},
    "Clip": {"dual": (1.01, 1.5)},
    "DropCovariant": {"replay": ((0.5, -5.0, 5.0), (0.1, -5.0, 5.0))},
    "GainReturns": {"outcome": ("turn.selected",)},
    "GroupInGroup": {"penalty": ("step.reward.penalty",)},
    "HardFocus": {"keep": ((3, 2, 2),)},
    "EasierTiers": {"tiers": (("domain 1",),)},
    "TextDiversity": {"function_words": (("so", "but"), ("a", "the", "of"))},
    "ChoiceLayout": {"gold": ("rollout.other.letter",), "of": ("rollout.other.reply",)},
    "FeedbackLoss": {"rates": ((0.1, 0.2),)},
    "RouteByOrigin": {"origins": (("hint",), ("policy",))},
    "ScoreVector": {"of": (("rollout.reward", "rollout.other"),), "full": ((2.0, 50.0),)},
    "WeightedSum": {"terms": ((("rollout.correct", 0.5),), (("rollout.other", 1.0),))},
    "LessonLibrary": {"extractor": (LessonExtractor(last=1),), "embedder": (WordEmbedder(),)},
    "Instructions": {"start": ((("a",), ("b",)), (("a",),))},
    "NormalizeEach": {"of": ((("rollout.reward", 1.0), ("rollout.score", 2.0)), (("rollout.reward", -1.0),))},
    "LengthLimit": {"limits": ((3,), (8, 1)), "thresholds": ((0.25,), ())},
    "MetaReasoning": {"valid": ("step.selected",), "available": ("step.available",)},
    "Mixture": {
        "comparisons": (
            (MixtureComponent(key=()),),
            (MixtureComponent(scale="none", singleton="zero"), MixtureComponent(key=("step.state",), share=0.5)),
            (MixtureComponent(of="rollout.reward", gamma=0.5),),
        )
    },
    "NestedHistories": {"penalty": ("step.reward.penalty",)},
    "PolicyGradient": {
        "ratio": ("none", "turn", "sequence"),
        "clip": (
            Clip(),
            Clip(0.1, 0.3, dual=1.2),
            Clip(kind="weight"),
            Clip("token.clip_low", "rollout.clip_high"),
            Target(width=0.5),
            SoftGate(2.0, 4.0),
            DivergenceMask(low=0.02, high=0.03),
            DivergenceMask("kl", low=0.01, high=0.02, cap=1.1),
        ),
    },
}
# Where nothing is known but that the field may be empty, or is free text.
GUESSES = (
    *(0.5, 2.0, 0.01, 3),
    *("token.selected", "rollout.selected", "group.selected", "rollout.length"),
    *("token.other", "rollout.other", "group.other"),
    *((), ("group",), ("turn.state",), ("rollout.other",)),
    *("token", "turn", "rollout", "old", "other"),
)
# How many values that matter are enough: every option, two numbers, one guess.
ENOUGH = {"option": 1000, "number": 2, "guess": 1}


@dataclass(frozen=True)
class Exploration:
    """What trying other settings has shown."""

    settings: Sequence[Any]  # parts that differ from the first in what they do
    inert: Mapping[str, list[Any]]  # fields that changed nothing, and the values tried
    broken: Sequence[str] = field(default_factory=list)  # valid settings that fail with an exception


def explore(bases: Sequence[Any], bench: Bench, alternatives: Mapping[str, Sequence[Any]]) -> Exploration:
    """Try every field of the parts `bases`, which are settings of one class."""
    search = _Found(bench, alternatives)
    for base in bases:
        for path in _paths(base):
            search.vary(base, path)
    for base in list(search.settings):
        for path in _paths(base):
            if ".".join(path) not in search.active:
                search.vary(base, path)
    whole = {path.rpartition(".")[0] for path in search.tried}  # a value inside a part: its own fields speak for it
    inert = {name: values for name, values in search.tried.items() if name not in search.active | whole}
    return Exploration([*bases, *search.settings], inert, search.broken)


class _Found:
    def __init__(self, bench: Bench, given: Mapping[str, Sequence[Any]]) -> None:
        self.bench, self.given = bench, given
        self.settings: list[Any] = []
        self.tried: dict[str, list[Any]] = {}
        self.active: set[str] = set()
        self.broken: list[str] = []

    def vary(self, base: Any, path: Path) -> None:
        """Try other values of one field; keep the settings that do something else."""
        name = ".".join(path)
        tried = self.tried.setdefault(name, [])
        enough = 0
        for value, kind in _alternatives(base, path, self.given):
            other = _changed(base, path, value)
            if other is None:
                continue
            if value not in tried:
                tried.append(value)
            effect = _effect(base, other, self.bench)
            if isinstance(effect, str):
                if kind != "guess":
                    self.broken.append(f"{other!r} {effect}")
            elif effect:
                self.active.add(name)
                self.settings.append(other)
                enough += 1
            if enough >= ENOUGH[kind]:
                break


def failure_of(error: Exception) -> str:
    """How a part broke, in words."""
    return f"fails with {type(error).__name__}: {error}"


def _effect(base: Any, other: Any, bench: Bench) -> bool | str:
    """Whether two settings of a part differ on some batch; a text if the other one fails with an exception."""
    changed = False
    accepted = 0
    for place in bench.places():
        try:
            new = bench.attempt(other, place)
        except Exception as error:
            return failure_of(error)
        accepted += not isinstance(new, PodiumError)
        changed = changed or difference(bench.attempt(base, place), new, tolerance=1e-12) is not None
        if changed and accepted:
            return True
    return False


def _paths(value: Any, above: Path = ()) -> Iterator[Path]:
    for name in value.field_names():
        if name in getattr(value, "read_by_loop", ()):
            continue
        yield (*above, name)
        inside = getattr(value, name)
        if isinstance(inside, Value) and not isinstance(inside, (Schedule, Memory, Part)):  # a part has its own battery
            yield from _paths(inside, (*above, name))


def _owner(value: Any, path: Path) -> Any:
    for name in path[:-1]:
        value = getattr(value, name)
    return value


def _changed(value: Any, path: Path, new: Any) -> Any:
    """The value with the field at `path` changed; None where the part refuses that."""
    name, *rest = path
    try:
        if rest:
            new = _changed(getattr(value, name), tuple(rest), new)
        return None if rest and new is None else value.replace(**{name: new})
    except Exception:  # out of range, or a guess of the wrong type
        return None


def _alternatives(base: Any, path: Path, given: Mapping[str, Sequence[Any]]) -> list[tuple[Any, str]]:
    """(value, kind) for the field at `path`; a kind of `ENOUGH`."""
    owner, name = _owner(base, path), path[-1]
    old = getattr(owner, name)
    options = [*given.get(".".join(path), ()), *_registered(type(owner), name)]
    alternatives = [(value, "option") for value in options] + _by_type(owner, name, old)
    return [(value, kind) for value, kind in alternatives if type(value) is not type(old) or value != old]


def _registered(cls: type, name: str) -> tuple[Any, ...]:
    return next((ALTERNATIVES[c.__name__][name] for c in cls.__mro__ if name in ALTERNATIVES.get(c.__name__, {})), ())


def _by_type(owner: Any, name: str, old: Any) -> list[tuple[Any, str]]:
    if isinstance(old, bool):
        return [(not old, "option")]
    if isinstance(old, int):
        return [(value, "number") for value in (old + 1, 0, 1, 2 * old + 2, old - 1)]
    if isinstance(old, float):
        return [(value, "number") for value in (2 * old, 0.0, old / 2, 1.0, old + 1.0, old / 100, old / 1e5)]
    if isinstance(old, str):
        options = _options(owner, name)
        if options:
            return [(value, "option") for value in options]
        level, dot, rest = old.partition(".")
        # Another column with the same last word is drawn in the same way.
        other = f"{level}.other.{rest.rpartition('.')[2]}" if dot else f"{old}_other"
        texts = [other, *(g for g in GUESSES if isinstance(g, str))]
        return [(value, "guess") for value in texts]
    if isinstance(old, tuple):
        numbers = [tuple(x / 2 for x in old)] if old and all(isinstance(x, float) for x in old) else []
        return [(value, "guess") for value in (*numbers, old[:-1], *(g for g in GUESSES if isinstance(g, tuple)))]
    if old is None:
        return [(value, "guess") for value in GUESSES]
    return [(None, "guess")] if isinstance(old, Value) else []


def _options(owner: Any, name: str) -> list[str]:
    """The valid texts of a field, read from the error that names them; none if any text is valid."""
    try:
        owner.replace(**{name: "?"})
    except PodiumError as error:
        listed = str(error).partition(" is not one of ")[2].partition(". ")[0]
        return re.findall(r"'([^']*)'", listed)
    except Exception:
        return []
    return []
