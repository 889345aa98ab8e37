"""The layout of the source: stage = folder, one recipe per file, unique public names, tests that mirror the source."""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

from podium.core.memory import Memory
from podium.core.part import Part
from podium.core.serial import class_modules, load_class
from podium.method import STAGES
from podium.methods.catalogue import FAMILIES, RECIPES, get

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "podium"
FILES = sorted(SOURCE.rglob("*.py"))
# Where the parts of a stage live, if not in `parts/STAGE`; the base class of each stage is in `core`.
ELSEWHERE = {"rollout": "podium.strategies."}
# Several implementations of one interface have the same names: kernels, their launches and their references in plain
# torch; the packed and the padded pass through a model. Commands are functions named after what people type.
SAME_BY_DESIGN = ("policy/cuda/", "policy/native/", "policy/forward/pa", "cli/", "__main__.py", "api.py")
# What every registry and every module with float64 arrays calls it.
IDIOMS = {"get", "Array"}


def _module(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)


def _public(path: Path) -> set[str]:
    """The public functions and classes that a module defines."""
    body = ast.parse(path.read_text("utf-8")).body
    names = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return {name for name in names if not name.startswith("_")}


def test_every_part_lives_in_the_folder_of_its_stage() -> None:
    misplaced = []
    for name in class_modules():
        cls = load_class(name)
        if issubclass(cls, Part) and not cls.__module__.startswith("podium.core."):
            home = ELSEWHERE.get(cls.stage, f"podium.parts.{cls.stage}.")
            if cls.stage not in STAGES or not cls.__module__.startswith(home):
                misplaced.append(f"{cls.__module__}.{name} of the stage {cls.stage!r}")
    assert misplaced == []


def test_every_memory_lives_among_the_memories() -> None:
    classes = [load_class(name) for name in class_modules()]
    memories = [cls for cls in classes if issubclass(cls, Memory) and cls is not Memory]
    assert [str(cls) for cls in memories if not cls.__module__.startswith("podium.memories.")] == []
    assert memories


def test_a_reward_part_writes_a_reward() -> None:
    """Parts that write first columns rather than rewards belong to the stage `annotate`."""
    wrong = set()
    for slug in RECIPES:
        for leaf in get(slug).leaves():
            for part in leaf.reward:
                if not any("reward" in column.split(".") for column in part.provides):
                    wrong.add(type(part).__name__)
    assert wrong == set()


def test_a_recipe_is_found_by_its_slug_and_its_family_is_its_folder() -> None:
    for slug, entry in RECIPES.items():
        assert (SOURCE / "methods" / entry.family / f"{slug.replace('-', '_')}.py").is_file()
    folders = {path.name for path in (SOURCE / "methods").iterdir() if path.is_dir() and path.name[0] != "_"}
    assert folders == set(FAMILIES)


@pytest.mark.parametrize("slug", sorted(RECIPES))
def test_the_function_and_the_slug_give_the_same_method(slug: str) -> None:
    from podium import methods

    method = getattr(methods, slug.replace("-", "_"))()
    assert method == get(slug)
    assert method.name == slug
    assert method.summary
    assert method.citation


def test_no_file_name_occurs_in_more_than_two_packages() -> None:
    packages = defaultdict(list)
    for path in FILES:
        if not path.name.startswith("_"):
            packages[path.name].append(str(path.parent.relative_to(SOURCE)))
    assert {name: where for name, where in packages.items() if len(where) > 2} == {}


def test_no_two_public_names_are_alike() -> None:
    homes_of = defaultdict(set)
    for path in FILES:
        place = str(path.relative_to(SOURCE))
        if path.name != "__init__.py" and not any(part in place for part in SAME_BY_DESIGN):
            for name in _public(path):
                homes_of[name].add(_module(path))
    alike = {name: sorted(where) for name, where in homes_of.items() if len(where) > 1 and name not in IDIOMS}
    assert alike == {}, json.dumps(alike, indent=1)


def test_tests_mirror_the_source() -> None:
    """Every folder of tests is named after a package, save those of tests that are about the whole."""
    whole = {"conformance", "examples", "migrations", "parity", "package", "tools"}
    for folder in (path for path in (ROOT / "tests").rglob("*") if path.is_dir()):
        place = folder.relative_to(ROOT / "tests")
        if place.parts[0] not in whole and not any(part[0] in "_." for part in place.parts):
            assert (SOURCE / place).is_dir(), f"tests/{place} has no src/podium/{place}"


def test_no_source_file_is_too_long_to_hold_in_mind() -> None:
    long = {str(p.relative_to(SOURCE)): n for p in FILES if (n := len(p.read_text("utf-8").splitlines())) > 400}
    assert long == {}


def test_the_package_has_no_unfinished_docstring() -> None:
    unfinished = [str(p.relative_to(SOURCE)) for p in FILES if re.search(r'^"""(TODO|"")', p.read_text("utf-8"), re.M)]
    assert unfinished == []
