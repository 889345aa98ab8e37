"""`podium methods coverage`, as typed."""

from __future__ import annotations

import json
import re

import pytest

from podium import methods
from podium.cli import main
from podium.docs.catalogue_text import read_catalogue
from podium.methods.coverage import AXES, survey_tags

Capture = pytest.CaptureFixture[str]


def test_every_cell_has_a_command_that_trains_or_is_named_as_waiting(capsys: Capture) -> None:
    assert main(["methods", "coverage"]) == 0
    out = capsys.readouterr().out
    rows = [re.split(r"  +", row) for row in out.splitlines()[1 : 1 + sum(map(len, AXES.values()))]]
    assert [(row[0], row[1]) for row in rows] == [(axis, value) for axis, values in AXES.items() for value in values]
    for row in rows:
        if row[2] == "0":
            assert row[1] in out.partition("Nothing yet: ")[2]
        else:
            command = row[3].split()
            assert command[:2] == ["podium", "train"]
            assert command[2] in methods.RECIPES


def test_the_cells_of_an_axis_hold_every_method_once(capsys: Capture) -> None:
    assert main(["methods", "coverage", "--json"]) == 0
    for values in json.loads(capsys.readouterr().out).values():
        slugs = [slug for cell in values.values() for slug in cell]
        assert sorted(slugs) == sorted(read_catalogue().entries.keys() & set(methods.RECIPES))


@pytest.mark.parametrize(
    ("slug", "tags"),
    [
        ("grpo", ("verifier", "rule", "critic-free baseline")),
        ("remax", ("verifier", "rule", "critic-free baseline")),  # its log-ratio is a penalty
        ("ppo", ("verifier", "rule", "ppo with a critic")),
        ("sft", ("verifier", "rule", "rejection and imitation")),
        ("implicit-prm", ("process reward", "implicit", "critic-free baseline")),
        ("ruscarl", ("model preference", "judge", "critic-free baseline")),
        ("archer", ("tools and environments", "rule", "q-learning and actor-critic")),
        ("causalrm", ("human preference", "explicit scalar", "critic-free baseline")),
    ],
)
def test_a_method_is_placed_by_its_parts(slug: str, tags: tuple[str, str, str], capsys: Capture) -> None:
    assert survey_tags(methods.RECIPES[slug]) == tags
    assert main(["methods", "show", slug]) == 0
    shown = capsys.readouterr().out
    assert ", ".join(tags) in shown or shown.startswith(f"{slug}: ")  # phases are described one by one
