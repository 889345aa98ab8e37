"""The glossary leads to the classes and functions that it names."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from podium.method.method import STAGES

PAGE = Path(__file__).parents[2] / "docs" / "glossary.md"
TEXT = PAGE.read_text(encoding="utf-8")
ENTRIES = re.findall(r"^- \*\*(.+?)\*\*: (.+)$", TEXT, re.MULTILINE)
LINKS = sorted(set(re.findall(r"\[`([\w.]+)`\]\(([^)]+\.py)\)", TEXT)))


@cache
def definitions(path: Path) -> frozenset[str]:
    """The names that a module defines: `name`, and `Class.name` for methods and fields."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    names = set(_defined(module.body))
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{name}" for name in _defined(node.body)}
    return frozenset(names)


def _defined(body: list[ast.stmt]) -> list[str]:
    names = []
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append(node.target.id)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return names


@pytest.mark.parametrize(("name", "target"), LINKS, ids=[f"{target}:{name}" for name, target in LINKS])
def test_every_link_leads_to_the_definition_that_it_names(name: str, target: str) -> None:
    path = (PAGE.parent / target).resolve()
    assert path.is_file(), f"the glossary links to {target}"
    assert name in definitions(path), f"{target} does not define {name}"


def test_every_entry_is_one_sentence_with_a_link() -> None:
    for concept, text in ENTRIES:
        assert "](../" in text, f"{concept} has no link"
        assert text.endswith("."), f"{concept} does not end with a full stop"
        assert ". " not in text, f"{concept} has more than one sentence"


def test_no_concept_is_explained_twice() -> None:
    concepts = [concept.lower() for concept, _ in ENTRIES]
    assert len(concepts) == len(set(concepts))
    assert len(concepts) == len(re.findall(r"^- ", TEXT, re.MULTILINE))


def test_the_stages_are_those_of_a_method() -> None:
    [text] = [text for concept, text in ENTRIES if concept == "Stage"]
    listed = re.findall(r"\w+", text.split("one of ")[1].split(";")[0].replace(" and ", ", "))
    assert tuple(listed) == STAGES


def test_the_tests_see_a_name_that_is_not_defined(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("Alias = int\n\n\nclass Box:\n    size: int = 1\n\n    def open(self) -> None: ...\n")
    assert definitions(module) == {"Alias", "Box", "Box.size", "Box.open"}
