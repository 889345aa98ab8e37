"""The catalogue: recipes by slug, their presets, and how to find them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from podium.core.errors import PodiumError, nearest
from podium.core.method import Method

__all__ = ["CATALOGUE", "Entry", "get", "recipe"]

KINDS = ("method", "metric", "tool", "reading")


@dataclass(frozen=True)
class Entry:
    """A catalogue entry: a slug, what it is, where it comes from, and how to build it."""

    slug: str
    summary: str
    citation: str
    family: str
    build: Callable[..., Method]
    kind: str = "method"
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def notes(self) -> str:
        """The recipe's docstring: formula, limits, where releases differ."""
        return inspect.getdoc(self.build) or ""


CATALOGUE: dict[str, Entry] = {}


def recipe(
    slug: str,
    *,
    summary: str,
    citation: str,
    family: str = "base",
    kind: str = "method",
    presets: Mapping[str, Mapping[str, Any]] | None = None,
) -> Callable[[Callable[..., Method]], Callable[..., Method]]:
    """Enter a function that returns a `Method` into the catalogue. Its defaults are the paper's."""
    if kind not in KINDS:
        raise PodiumError(f"A catalogue entry's kind is one of {', '.join(KINDS)}, not {kind!r}.")

    def enter(build: Callable[..., Method]) -> Callable[..., Method]:
        CATALOGUE[slug] = Entry(slug, summary, citation, family, build, kind, presets or {})
        return build

    return enter


def get(name: str, **settings: Any) -> Method:
    """A method by its slug, `slug@preset`, or several joined (`dapo+steer`); settings are the recipe's arguments."""
    if "+" in name:
        from podium.methods.combination import joined  # which reads the catalogue

        return joined([get(part.strip()) for part in name.split("+")], settings)
    slug, _, preset = name.partition("@")
    if slug not in CATALOGUE:
        raise PodiumError(f"There is no method {slug!r}. {nearest(slug, CATALOGUE)}")
    entry = CATALOGUE[slug]
    if preset and preset not in entry.presets:
        raise PodiumError(f"{slug} has no preset {preset!r}. {nearest(preset, entry.presets)}")
    arguments = {**entry.presets.get(preset, {}), **settings}
    known = inspect.signature(entry.build).parameters
    for key in arguments:
        if key not in known:
            raise PodiumError(f"The recipe {slug!r} has no setting {key!r}. {nearest(key, known)}")
    method = entry.build(**arguments)
    return method.replace(name=name, summary=entry.summary, citation=entry.citation)
