"""Every recipe explains itself: a summary that fits a line, tags to search for, and the meaning of each argument."""

from __future__ import annotations

import inspect
import re

import pytest

from podium.methods.catalogue import CATALOGUE, RECIPES


@pytest.mark.parametrize("slug", CATALOGUE)
def test_an_entry_has_a_summary_and_tags(slug: str) -> None:
    entry = CATALOGUE[slug]
    assert len(entry.summary) <= 110
    assert 2 <= len(entry.tags) <= 6
    assert list(entry.tags) == [tag.lower() for tag in entry.tags]
    assert entry.notes
    assert (entry.run == "") == (entry.kind == "method")


@pytest.mark.parametrize("slug", RECIPES)
def test_a_recipe_has_a_formula_and_a_meaning_for_each_argument(slug: str) -> None:
    entry = RECIPES[slug]
    formula, _, arguments = entry.notes.partition("\n\nArgs:\n")
    assert formula
    assert re.findall(r"(?m)^    (\w+): \S.*", arguments) == list(inspect.signature(entry.build).parameters)


@pytest.mark.parametrize(
    "word", ["curriculum", "importance sampling", "length bias", "off-policy", "credit assignment"]
)
def test_the_words_of_the_field_find_methods(word: str) -> None:
    assert sum(word in entry.tags for entry in CATALOGUE.values()) > 1
