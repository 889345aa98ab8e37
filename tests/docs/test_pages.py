"""The generated pages: complete, up to date, and true to the code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from podium import advantage, methods, objective
from podium.core.schedule import Linear
from podium.core.signal import Signal
from podium.docs import index
from podium.docs.__main__ import main
from podium.docs.catalogue_text import CATALOGUE_FILE
from podium.docs.comments import field_comments
from podium.docs.method_page import method_page, pages
from podium.docs.reading import changed_settings, differences, held, needs, settings_of

FOLDER = Path(__file__).parents[2] / "docs" / "methods"
PAGES = pages()


@pytest.mark.parametrize("name", list(PAGES))
def test_committed_page_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name], "run `make docs`"


def test_no_page_is_left_of_an_entry_that_is_gone() -> None:
    assert {path.name for path in FOLDER.glob("*.md")} == set(PAGES)


@pytest.mark.parametrize("slug", list(methods.RECIPES))
def test_every_page_has_formula_citation_settings_and_needs(slug: str) -> None:
    entry = methods.RECIPES[slug]
    text = method_page(entry)
    assert entry.summary in text
    assert entry.citation in text
    assert entry.notes.split("\n\n")[0] in text
    for heading in ("## Formula", "## Use", "## Settings of the recipe", "## Needs", "## Stages"):
        assert heading in text


@pytest.mark.parametrize("slug", list(methods.RECIPES))
def test_every_setting_on_a_page_can_be_set_by_its_path(slug: str) -> None:
    for method in methods.get(slug).leaves():
        for path, value in held(method):
            for setting in settings_of(value, path):
                assert method.set(setting.path, setting.value) == method


def test_comment_behind_a_field_is_its_meaning_and_is_inherited() -> None:
    assert field_comments(objective.KL)["anchor"] == "a role, or old"
    assert field_comments(objective.KL)["trains"] == "which learner receives the gradient"
    assert field_comments(advantage.Normalize)["unbiased"] == "divide by n − 1"


def test_class_without_source_has_no_comments() -> None:
    names: dict[str, type[advantage.Normalize]] = {}
    exec("from podium.parts.advantage import Normalize\nclass Typed(Normalize):\n    extra: int = 1  # unseen", names)
    assert "extra" not in field_comments(names["Typed"])


def test_settings_of_values_inside_a_part_have_their_own_paths() -> None:
    term = objective.PolicyGradient(clip=objective.Clip(high=0.3))
    found = {s.path: s for s in settings_of(term, "objective.PolicyGradient")}
    assert found["objective.PolicyGradient.clip.high"].value == 0.3
    assert found["objective.PolicyGradient.clip.high"].changed
    assert not found["objective.PolicyGradient.aggregate.path"].changed


def test_changed_settings_are_those_that_differ_and_values_of_another_class() -> None:
    term = objective.PolicyGradient(clip=objective.Clip(high=0.3), coefficient=0.5)
    changed = {s.path: s.value for s in changed_settings(term, "x")}
    assert changed == {"x.clip": objective.Clip(high=0.3), "x.coefficient": 0.5}


def test_schedule_is_one_setting() -> None:
    [found] = [s for s in settings_of(objective.KL(coefficient=Linear(1.0, 0.0, 10)), "x") if s.path == "x.coefficient"]
    assert found.value == Linear(1.0, 0.0, 10)


def test_needs_leave_out_what_the_method_itself_writes() -> None:
    need = needs(methods.reinforce_plus_plus())
    assert need.always == ("rollout.reward",)
    assert need.columns == ()  # token.reward is written by TokenReward
    assert Signal("logp", of="ref") in need.signals


def test_needs_name_the_columns_of_the_world() -> None:
    assert needs(methods.gigpo()).columns == ("turn.valid", "step.reward", "step.state")


def test_differences_are_the_changed_settings_and_the_parts_that_one_has() -> None:
    found = {d.path: (d.left, d.right) for d in differences(methods.grpo(), methods.grpo(kl=0.0, clip=0.1))}
    assert found["objective.PolicyGradient.clip.low"] == (0.2, 0.1)
    assert found["objective.KL"][1] is None
    assert found["roles.ref"][1] is None
    assert set(found) == {
        "objective.PolicyGradient.clip.low",
        "objective.PolicyGradient.clip.high",
        "objective.KL",
        "roles.ref",
    }


def test_equal_methods_do_not_differ() -> None:
    assert differences(methods.dapo(), methods.dapo()) == []


def test_the_committed_index_is_up_to_date() -> None:
    assert json.loads(index.INDEX_FILE.read_text("utf-8")) == index.index_data(), "run `make docs`"


def test_the_committed_catalogue_is_up_to_date_and_small() -> None:
    committed = CATALOGUE_FILE.read_text("utf-8")
    assert json.loads(committed) == json.loads(json.dumps(index.catalogue_data())), "run `make docs`"
    assert len(committed.encode()) < 7_500 * len(json.loads(committed)["entries"])


def test_writing_removes_stale_pages_and_leaves_other_files_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    package.mkdir()
    monkeypatch.setattr(index, "INDEX_FILE", package / "index.json")
    monkeypatch.setattr(index, "CATALOGUE_FILE", package / "catalogue.json")
    stale, own = tmp_path / "gone.md", tmp_path / "own.md"
    stale.write_text(PAGES["grpo.md"], encoding="utf-8")
    own.write_text("# mine")
    assert main([str(tmp_path)]) == 0
    assert not stale.exists()
    assert own.read_text() == "# mine"
    assert (tmp_path / "grpo.md").read_text(encoding="utf-8") == PAGES["grpo.md"]
    assert json.loads((package / "index.json").read_text("utf-8")) == index.index_data()
    assert json.loads((package / "catalogue.json").read_text("utf-8"))["families"] == methods.FAMILIES


def test_usage_error_without_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "Usage" in capsys.readouterr().err
