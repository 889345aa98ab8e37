"""The catalogue as text: what `podium methods` lists and shows.

It is read from `catalogue.json`, which `python -m podium.docs` writes, so that nothing here imports torch.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from podium.core.errors import PodiumError, nearest

__all__ = [
    "CATALOGUE_FILE",
    "CatalogueText",
    "EntryText",
    "MethodText",
    "PartText",
    "SettingText",
    "read_catalogue",
    "split_arguments",
]

CATALOGUE_FILE = Path(__file__).parents[1] / "catalogue.json"


@dataclass(frozen=True)
class SettingText:
    """One setting under the path by which `--set` changes it."""

    path: str
    value: str
    comment: str = ""


@dataclass(frozen=True)
class PartText:
    """A part, memory or role of a method."""

    path: str  # such as `advantage` or `objective.KL`
    name: str  # of its class
    opening: str  # how its documentation begins
    changed: tuple[SettingText, ...]  # what differs from the defaults of its class
    settings: tuple[SettingText, ...]  # all of them, down to those of the values inside it

    @property
    def stage(self) -> str:
        return self.path.partition(".")[0]


@dataclass(frozen=True)
class MethodText:
    """A method with its parts and what it needs from outside; one in phases is only described."""

    parts: tuple[PartText, ...] = ()
    needs: Mapping[str, Sequence[str]] | None = None  # columns, signals, roles, memories
    description: str = ""


@dataclass(frozen=True)
class EntryText:
    """An entry of the catalogue, without its parts."""

    slug: str
    summary: str
    citation: str
    family: str
    kind: str
    notes: str  # the formula, its limits, and where releases differ
    tags: tuple[str, ...]
    run: str  # the command that runs what is no method
    stages: tuple[str, ...] = ()  # where it does something that a method without any choices does not
    arguments: tuple[str, ...] = ()  # of the recipe
    presets: Mapping[str, tuple[SettingText, ...]] = field(default_factory=dict)  # by name: what differs from the plain
    protocol: tuple[tuple[str, str, str], ...] = ()  # setting, as published, by default
    source: str = ""  # of the published settings
    home: str = ""  # where it trains unless a world is named; empty: it does not
    survey: tuple[str, ...] = ()  # its feedback, reward model and optimiser

    @property
    def trains(self) -> bool:
        """Whether there is a method to train."""
        return bool(self.home)

    @property
    def names(self) -> tuple[str, ...]:
        """The slug, and the slug with each preset."""
        return (self.slug, *(f"{self.slug}@{preset}" for preset in self.presets))


class CatalogueText:
    """The generated file, read."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data
        self.families: dict[str, str] = data["families"]
        self.kinds: list[str] = data["kinds"]
        self.stages: list[str] = data["stages"]
        self.axes: dict[str, dict[str, str]] = data["axes"]  # of a survey: values, each with an entry that shows it
        self.run_settings: list[str] = data["settings"]["run"]
        self.optimizer_settings: list[str] = data["settings"]["optimizer"]
        self.world_settings: list[str] = data["settings"]["world"]  # of any world
        self.entries = {slug: _entry(slug, fields) for slug, fields in data["entries"].items()}

    def entry(self, name: str) -> EntryText:
        """The entry of the method `slug` or `slug@preset`."""
        slug, _, preset = name.partition("@")
        if slug not in self.entries:
            raise PodiumError(f"There is no method {slug!r}. {nearest(slug, self.entries)}")
        entry = self.entries[slug]
        if not entry.trains:
            raise PodiumError(f"{slug} is a {entry.kind}, not a method: run `{entry.run}`.")
        if preset and preset not in entry.presets:
            raise PodiumError(f"{slug} has no preset {preset!r}. {nearest(preset, entry.presets)}")
        return entry

    def method(self, name: str) -> MethodText:
        """The parts of `slug` or `slug@preset`."""
        self.entry(name)
        fields = self._data["methods"][name.removesuffix("@")]
        if "description" in fields:
            return MethodText(description=fields["description"])
        parts = tuple(self._part(path, self._data["parts"][number]) for path, number in fields["parts"])
        return MethodText(parts, fields["needs"])

    def _part(self, path: str, fields: Sequence[Any]) -> PartText:
        name, opening, changed, settings = fields
        comments = self._data["comments"]

        def read(rows: Sequence[Any]) -> tuple[SettingText, ...]:
            return tuple(SettingText(f"{path}.{field}", value, comments[number]) for field, value, number in rows)

        return PartText(path, name, opening, read(changed), read(settings))


@cache
def read_catalogue() -> CatalogueText:
    """The catalogue of this installation."""
    return CatalogueText(json.loads(CATALOGUE_FILE.read_text("utf-8")))


def _entry(slug: str, fields: Mapping[str, Any]) -> EntryText:
    presets = {
        preset: tuple(SettingText(path, value) for path, value in rows)
        for preset, rows in fields.get("presets", {}).items()
    }
    tuples = {name: tuple(fields.get(name, ())) for name in ("tags", "stages", "arguments", "survey")}
    protocol = tuple((name, published, usual) for name, published, usual in fields.get("protocol", ()))
    return EntryText(**{**fields, **tuples, "slug": slug, "presets": presets, "protocol": protocol})


def split_arguments(notes: str) -> tuple[str, dict[str, str]]:
    """The docstring without its `Args:` block, and the meaning of each argument."""
    text, _, block = notes.partition("\n\nArgs:\n")
    entries = textwrap.dedent(block).replace("\n    ", " ").splitlines()
    return text, {name: meaning for name, _, meaning in (entry.partition(": ") for entry in entries)}
