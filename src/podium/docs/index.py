"""The package as data, for what must be answered without importing torch.

`index.json` has the module of each class that YAML may name; `catalogue.json` has what `podium methods` lists and
shows. `python -m podium.docs` writes both; a test fails where they are out of date.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from pathlib import Path
from typing import Any

import podium
from podium.core.value import REGISTRY
from podium.docs.catalogue_text import CATALOGUE_FILE, SettingText
from podium.docs.protocol_text import home_text, protocol_rows
from podium.docs.reading import differences, method_text
from podium.method import STAGES, Method
from podium.methods.catalogue import CATALOGUE, FAMILIES, KINDS, RECIPES, Entry, Recipe, get
from podium.methods.coverage import AXES, survey_tags
from podium.protocols.world import World

__all__ = ["INDEX_FILE", "catalogue_data", "index_data", "write_index"]

INDEX_FILE = Path(podium.__file__).parent / "index.json"
# Their modules run when they are imported, or need a GPU; they define no values.
PASSED_OVER = ("__main__", "podium.policy.cuda", "podium.policy.native", "podium.testing", "integrations.trl")


def write_index() -> None:
    """Write both files into the package."""
    INDEX_FILE.write_text(json.dumps(index_data(), indent=1, ensure_ascii=False) + "\n", "utf-8")
    CATALOGUE_FILE.write_text(_one_line_per_item(catalogue_data()), "utf-8")


def index_data() -> dict[str, Any]:
    """Every class that YAML may name, by its module."""
    _import_everything()
    return {"classes": {name: cls.__module__ for name, cls in sorted(REGISTRY.items())}}


def catalogue_data() -> dict[str, Any]:
    """The catalogue as plain data. Parts and comments that several methods share are written once."""
    parts: dict[str, int] = {}
    comments: dict[str, int] = {}

    def rows(path: str, settings: tuple[SettingText, ...]) -> list[tuple[str, str, int]]:
        number = comments.setdefault
        return [(s.path.removeprefix(f"{path}."), s.value, number(s.comment, len(comments))) for s in settings]

    def data(method: Method) -> dict[str, Any]:
        text = method_text(method)
        if text.description:
            return {"description": text.description}
        numbers = []
        for part in text.parts:
            fields = [part.name, part.opening, rows(part.path, part.changed), rows(part.path, part.settings)]
            numbers.append((part.path, parts.setdefault(_compact(fields), len(parts))))
        return {"parts": numbers, "needs": text.needs}

    names = [name for slug, entry in RECIPES.items() for name in (slug, *(f"{slug}@{p}" for p in entry.presets))]
    methods = {name: data(get(name)) for name in names}
    return {
        "families": FAMILIES,
        "kinds": KINDS,
        "stages": STAGES,
        "axes": AXES,
        "settings": _setting_names(),
        "entries": {slug: _entry_data(entry) for slug, entry in CATALOGUE.items()},
        "methods": methods,
        "parts": [json.loads(part) for part in parts],
        "comments": list(comments),
    }


def _setting_names() -> dict[str, list[str]]:
    """What `--set` may name besides settings of the method."""
    _import_everything()
    worlds = [cls for cls in REGISTRY.values() if issubclass(cls, World)]
    return {
        "run": list(REGISTRY["Config"].field_names()),
        "optimizer": list(REGISTRY["Optimizer"].field_names()),
        "world": sorted({name for cls in worlds for name in cls.field_names()}),
    }


def _import_everything() -> None:
    """So that every class is registered."""
    for module in pkgutil.walk_packages(podium.__path__, "podium."):
        if not any(name in module.name for name in PASSED_OVER):
            importlib.import_module(module.name)


def _entry_data(entry: Entry) -> dict[str, Any]:
    named = ("summary", "citation", "family", "kind", "notes", "tags", "run")
    data = {name: getattr(entry, name) for name in named}
    return {**data, **_recipe_data(entry)} if isinstance(entry, Recipe) else data


def _recipe_data(entry: Recipe) -> dict[str, Any]:
    method, empty = get(entry.slug), Method("")
    presets = {
        preset: [(d.path, repr(d.right)) for d in differences(method, get(f"{entry.slug}@{preset}"))]
        for preset in entry.presets
    }
    return {
        "stages": [stage for stage in STAGES if getattr(method, stage) != getattr(empty, stage)],
        "arguments": list(inspect.signature(entry.build).parameters),
        "protocol": protocol_rows(entry),
        "source": "" if entry.protocol is None else entry.protocol.source,
        "home": home_text(entry),
        "survey": survey_tags(entry),
        "presets": presets,
    }


def _compact(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _one_line_per_item(data: dict[str, Any]) -> str:
    """JSON with one line for each item of each section, so that a change of one method is a change of few lines."""
    sections = []
    for name, items in data.items():
        if isinstance(items, dict):
            lines = [f"{_compact(key)}:{_compact(item)}" for key, item in items.items()]
        else:
            lines = [_compact(item) for item in items]
        start, end = "{}" if isinstance(items, dict) else "[]"
        sections.append(f"{_compact(name)}:{start}\n" + ",\n".join(lines) + f"\n{end}")
    return "{" + ",\n".join(sections) + "}\n"
