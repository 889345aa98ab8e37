"""Entries of the catalogue that are no methods, as typed."""

from __future__ import annotations

import pytest

from podium import methods
from podium.cli import main
from podium.docs.catalogue_text import read_catalogue
from podium.methods.catalogue import Recipe

Capture = pytest.CaptureFixture[str]
OTHERS = [slug for slug, entry in methods.CATALOGUE.items() if not isinstance(entry, Recipe)]


def typed(capsys: Capture, *words: str) -> tuple[int, str, str]:
    code = main(list(words))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_there_are_such_entries_and_they_are_listed(capsys: Capture) -> None:
    assert {"alignment-asymptotics", "parl", "policy-cliff", "rl-llm-survey"} <= set(OTHERS)
    out = typed(capsys, "methods", "--kind", "study")[1]
    assert "parl" in out
    assert "(study)" in out


@pytest.mark.parametrize("slug", OTHERS)
def test_show_prints_the_command_that_runs_it(capsys: Capture, slug: str) -> None:
    code, out, err = typed(capsys, "methods", "show", slug)
    assert (code, err) == (0, "")
    assert out.startswith(f"{slug}\n")
    assert f"Run\n  {methods.CATALOGUE[slug].run}\n" in out


@pytest.mark.parametrize(
    "line",
    [
        *("train parl", "train parl@paper", "train grpo+parl", "compare grpo parl"),
        *("methods check parl", "methods probe parl", "methods show parl --yaml", "methods matrix parl"),
        "methods compare grpo parl",
    ],
)
def test_what_is_no_method_says_what_to_run_instead(capsys: Capture, line: str) -> None:
    code, out, err = typed(capsys, *line.split())
    assert (code, out) == (2, "")
    assert err == "Error: parl is a study, not a method: run `podium lab parl`.\n"


def test_labs_named_as_commands_exist() -> None:
    from podium.labs import LABS

    runs = [entry.run.split() for entry in read_catalogue().entries.values() if entry.run]
    assert {words[2] for words in runs if words[1] == "lab"} <= set(LABS)
