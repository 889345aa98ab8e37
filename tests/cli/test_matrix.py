"""`podium methods matrix`: which methods combine, for people and as JSON."""

from __future__ import annotations

import json

import pytest

from podium.cli import main
from podium.methods.catalogue import RECIPES


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["methods", "matrix", *arguments]) == code
    return capsys.readouterr().out


def test_a_pair_that_combines_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(capsys, "gspo", "ace")
    assert shown.startswith("gspo+ace: ")
    assert "shape      OverconfidentErrors" in shown


def test_a_pair_that_does_not_says_why_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(capsys, "gigpo", "ppo", code=1)
    assert shown.startswith("conflict: Both decide the stage 'advantage'")
    assert shown.endswith("gigpo and ppo do not combine.\n")


def test_choices_and_warnings_come_before_the_method(capsys: pytest.CaptureFixture[str]) -> None:
    first, second, *_ = printed(capsys, "rloo", "adora").splitlines()
    assert first.startswith("choice: ")
    assert second.startswith("warning: ")


def test_a_row_has_every_other_method_once_and_those_that_combine_first(capsys: pytest.CaptureFixture[str]) -> None:
    _, *rows = printed(capsys, "grpo").splitlines()
    assert {row.split()[0] for row in rows} == set(RECIPES) - {"grpo"}
    verdicts = [row.split()[1] for row in rows]
    assert verdicts == sorted(verdicts, key=("yes", "care", "no").index)
    assert all(len(row.split()) > 2 for row in rows if row.split()[1] == "no")


def test_what_comes_of_two_methods_has_a_row_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(printed(capsys, "gspo+ace", "a-grae", "--json"))["combines"] == "yes"


def test_the_overview_fits_a_terminal_and_json_has_everything(capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(capsys)
    assert max(map(len, shown.splitlines()[1:10])) <= 80
    data = json.loads(printed(capsys, "--json"))
    assert set(data) == set(RECIPES)
    assert all(set(data[slug]["with"]) == set(RECIPES) - {slug} for slug in data)


def test_more_than_two_methods_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "matrix", "a-grae", "ace", "adora"]) == 2
    assert "such as A+B" in capsys.readouterr().err
