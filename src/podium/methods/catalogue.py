"""The catalogue: recipes by slug, their presets, and entries that are no methods.

An entry lives in `methods/FAMILY/SLUG.py`, with underscores for the dashes of the slug: its file name is its slug and
its folder is its family, and neither is written a second time.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec

from podium.core.errors import PodiumError, nearest
from podium.method import Home, Method, Protocol

__all__ = ["CATALOGUE", "FAMILIES", "KINDS", "RECIPES", "Entry", "Recipe", "entry", "get", "home_of", "recipe"]

KINDS = ("method", "metric", "study", "tool", "reading")
# The families in the order in which they are listed, and what the methods of each have in common.
FAMILIES = {
    "base": "Policy gradients and group-relative baselines that other methods start from",
    "group": "Group-relative advantages, trust regions, difficulty and length",
    "objective": "Other losses: classification, regression, preferences, value functions",
    "entropy": "Entropy, exploration and token-level shaping",
    "process": "Process rewards and rewards from likelihoods",
    "rewards": "Rewards of several terms: layout, diversity, consistency",
    "label_free": "Rewards without labels: majority votes and pseudo-labels",
    "turns": "Credit assignment over several turns, agents and tools",
    "hints": "Hints, rubrics and other guidance while sampling",
    "hybrid": "Demonstrations, teachers and distillation beside reinforcement learning",
    "trees": "Rollouts that branch: forks, tree search and pruning",
    "replay": "Replay of earlier rollouts",
    "selection": "Data selection, curricula and rollout budgets",
    "preference": "Preferences and reward models",
    "networks": "Policies that write no text: choosers among options, and flows that draw",
    "study": "Experiments and metrics of studies, rather than methods",
    "tables": "Bandits, fairness, offline learning and off-policy evaluation, on tables",
}
P = ParamSpec("P")


@dataclass(frozen=True)
class Entry:
    """An entry of the catalogue: a slug, what it is, where it comes from, and what runs it."""

    slug: str
    summary: str
    citation: str
    family: str
    kind: str
    notes: str  # the formula, its limits, and where releases differ
    tags: tuple[str, ...]  # words of the field by which people look for it, such as "curriculum"
    run: str  # the command that runs what is no method; empty: podium train SLUG


@dataclass(frozen=True)
class Recipe(Entry):
    """An entry that is trained: how to build the method, and where it is at home. Its notes are its docstring."""

    build: Callable[..., Method]
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    protocol: Protocol | None = None  # the authors' run
    home: Home = Home(level=2)  # where `podium train SLUG` trains unless a world is named
    extends: str = "grpo"  # the slug of the method that it changes, from which its runs must differ


class _Catalogue(Mapping[str, Entry]):
    """Entries by slug. The module of an entry is imported when it is first asked for."""

    def __init__(self) -> None:
        self._modules = {
            module.replace("_", "-"): f"podium.methods.{family}.{module}"
            for family in FAMILIES
            for _, module, _ in pkgutil.iter_modules([str(Path(__file__).parent / family)])
            if not module.startswith("_")
        }
        self._entries: dict[str, Entry] = {}

    def __getitem__(self, slug: str) -> Entry:
        if slug not in self._entries and slug in self._modules:
            importlib.import_module(self._modules[slug])
        return self._entries[slug]

    def __contains__(self, slug: object) -> bool:
        return slug in self._modules or slug in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter({**self._modules, **self._entries})

    def __len__(self) -> int:
        return len({**self._modules, **self._entries})

    def enter(self, entry: Entry) -> None:
        self._entries[entry.slug] = entry


class _Recipes(Mapping[str, Recipe]):
    """The entries of the catalogue that are trained."""

    def __getitem__(self, slug: str) -> Recipe:
        found = CATALOGUE[slug]
        if not isinstance(found, Recipe):
            raise KeyError(slug)
        return found

    def __iter__(self) -> Iterator[str]:
        return (slug for slug, found in CATALOGUE.items() if isinstance(found, Recipe))

    def __len__(self) -> int:
        return sum(1 for _ in self)


CATALOGUE = _Catalogue()
RECIPES = _Recipes()


def entry(
    module: str, *, summary: str, citation: str, kind: str, run: str, notes: str, tags: tuple[str, ...] = ()
) -> None:
    """Enter what is no method, such as a study or a metric, from a module of its own (`__name__`); `run` is the command
    that runs it."""
    _check_kind(kind, run)
    package, _, name = module.rpartition(".")
    family, slug = package.removeprefix("podium.methods."), name.replace("_", "-")
    CATALOGUE.enter(Entry(slug, summary, citation, family, kind, inspect.cleandoc(notes), tags, run))


def _check_kind(kind: str, run: str) -> None:
    if kind not in KINDS:
        raise PodiumError(f"A catalogue entry's kind is one of {', '.join(KINDS)}, not {kind!r}.")
    if (kind == "method") != (not run):
        raise PodiumError(f"What is no method says what runs it: run = {run!r} does not fit the kind {kind!r}.")


def recipe(
    *,
    summary: str,
    citation: str,
    kind: str = "method",
    presets: Mapping[str, Mapping[str, Any]] | None = None,
    protocol: Protocol | None = None,
    home: Home | None = None,
    tags: tuple[str, ...] = (),
    run: str = "",
    extends: str = "grpo",
) -> Callable[[Callable[P, Method]], Callable[P, Method]]:
    """Enter a function that returns a `Method` into the catalogue, under its own name.

    Its defaults are the structure of the authors' run, with lengths and times as shares of the run. `presets` are
    other arguments by name; a preset may have a `protocol` and a `home` of its own. The preset `paper`, which every
    recipe with a protocol has, takes the authors' numbers in full. `extends` is the slug of the method that it changes.
    A metric or a tool that comes with a method to try it on names the command that shows it (`run`).
    """
    _check_kind(kind, run)

    def enter(build: Callable[P, Method]) -> Callable[P, Method]:
        slug = build.__name__.replace("_", "-")
        package, _, module = build.__module__.rpartition(".")
        family = package.removeprefix("podium.methods.") if package.startswith("podium.methods.") else "own"
        if family != "own" and module != build.__name__:
            raise PodiumError(f"The recipe {build.__name__} must be in a file of its name, not in {module}.py.")

        @functools.wraps(build)
        def named(*args: P.args, **kwargs: P.kwargs) -> Method:
            method = build(*args, **kwargs).replace(name=slug, summary=summary, citation=citation)
            return method.each(lambda leaf: leaf.replace(protocol=leaf.protocol or protocol))

        given = dict(presets or {})
        if protocol is not None:
            given.setdefault("paper", {})
        own = home or Home(level=2)
        notes = inspect.getdoc(build) or ""
        named_fields = (slug, summary, citation, family, kind, notes, tags, run)
        CATALOGUE.enter(Recipe(*named_fields, named, given, protocol, own, extends))
        return named

    return enter


def get(name: str, **settings: Any) -> Method:
    """A method by its slug, `slug@preset`, or several joined (`dapo+steer`); settings are the recipe's arguments."""
    if "+" in name:
        from podium.methods.combination import combine_all  # which reads the catalogue

        return combine_all([get(part.strip()) for part in name.split("+")], settings)
    slug, _, preset = name.partition("@")
    if slug not in CATALOGUE:
        raise PodiumError(f"There is no method {slug!r}. {nearest(slug, CATALOGUE)}")
    found = CATALOGUE[slug]
    if not isinstance(found, Recipe):
        raise PodiumError(f"{slug} is a {found.kind}, not a method: run `{found.run}`.")
    if preset and preset not in found.presets:
        raise PodiumError(f"{slug} has no preset {preset!r}. {nearest(preset, found.presets)}")
    chosen = dict(found.presets.get(preset, {}))
    protocol = chosen.pop("protocol", None)
    chosen.pop("home", None)
    arguments = {**chosen, **settings}
    parameters = inspect.signature(found.build).parameters
    for key in arguments:
        if key not in parameters:
            raise PodiumError(f"The recipe {slug!r} has no setting {key!r}. {nearest(key, parameters)}")
    method = found.build(**arguments).replace(name=name)
    return method.each(lambda leaf: _as_published(leaf, protocol, exact=preset == "paper"))


def home_of(name: str) -> Home:
    """Where a method trains unless a world is named: its own place, its preset's, or that of the first of several."""
    slug, _, preset = name.split("+")[0].strip().partition("@")
    found = RECIPES[slug]
    home: Home = found.presets.get(preset, {}).get("home", found.home)
    return home


def _as_published(method: Method, protocol: Protocol | None, *, exact: bool) -> Method:
    """The method with the protocol of a preset, if it has one, and the numbers of its authors, if `exact`."""
    protocol = protocol or method.protocol
    if protocol is None:
        return method
    return method.replace(protocol=protocol.replace(exact=exact or protocol.exact))
