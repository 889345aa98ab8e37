"""Entries of the catalogue that are no methods: what runs them is said wherever a method is asked for."""

from __future__ import annotations

import pytest

from podium import methods
from podium.core.errors import PodiumError
from podium.docs.method_page import entry_page
from podium.methods.catalogue import CATALOGUE, RECIPES, entry, recipe


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CATALOGUE, "_entries", dict(CATALOGUE._entries))
    entry(
        "podium.methods.study.a_question",
        summary="Is it so?",
        citation="Nobody 2026",
        kind="study",
        run="podium lab a-question",
        notes="""
        It is asked.

        And answered.
        """,
        tags=("questions",),
    )


@pytest.mark.usefixtures("entered")
def test_a_study_is_listed_and_is_no_recipe() -> None:
    found = CATALOGUE["a-question"]
    assert (found.family, found.kind, found.run) == ("study", "study", "podium lab a-question")
    assert found.notes == "It is asked.\n\nAnd answered."
    assert "a-question" not in RECIPES
    assert "a_question" not in dir(methods)
    assert set(RECIPES) < set(CATALOGUE)
    assert len(RECIPES) == len(list(RECIPES))


@pytest.mark.usefixtures("entered")
@pytest.mark.parametrize("name", ["a-question", "a-question@paper", "grpo+a-question"])
def test_what_is_no_method_says_what_to_run_instead(name: str) -> None:
    with pytest.raises(PodiumError, match=r"^a-question is a study, not a method: run `podium lab a-question`\.$"):
        methods.get(name)


@pytest.mark.usefixtures("entered")
def test_the_page_of_a_study_says_how_to_run_it() -> None:
    page = entry_page(CATALOGUE["a-question"])
    assert "# a-question\n\nIs it so?\n\nStudy · family study · Nobody 2026" in page
    assert "It is asked." in page
    assert "```sh\npodium lab a-question\n```" in page


def test_a_metric_that_comes_with_a_method_shows_both() -> None:
    page = entry_page(CATALOGUE["invisible-leash"])
    assert "```sh\npodium lab invisible-leash\n```" in page
    assert "## Stages" in page


@pytest.mark.parametrize(
    ("kind", "run", "words"),
    [
        ("thought", "podium lab x", "kind is one of method, metric, study, tool, reading, not 'thought'"),
        ("study", "", "What is no method says what runs it"),
        ("method", "podium lab x", "What is no method says what runs it"),
    ],
)
def test_an_entry_of_no_kind_or_without_a_command_is_refused(kind: str, run: str, words: str) -> None:
    with pytest.raises(PodiumError, match=words):
        entry("podium.methods.study.x", summary="", citation="", kind=kind, run=run, notes="")
    with pytest.raises(PodiumError, match=words):
        recipe(summary="", citation="", kind=kind, run=run)
