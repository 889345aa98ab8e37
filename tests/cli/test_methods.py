"""`podium methods`, as typed: what it prints, where, and with which exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from podium import __version__, methods
from podium.cli import main
from podium.cli.overrides import load
from podium.cli.show import show_method
from podium.docs.catalogue_text import read_catalogue
from podium.docs.reading import method_text
from podium.method import Method

Capture = pytest.CaptureFixture[str]


def typed(capsys: Capture, line: str) -> tuple[int, str, str]:
    """(exit code, output, errors) of a command line."""
    code = main(line.split())
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def slugs(output: str) -> set[str]:
    """The methods of a listing; its headings are the lines that are not indented."""
    return {row.split()[0] for row in output.splitlines() if row.startswith("  ")}


# -- list ----------------------------------------------------------------------------------------------------------


def test_list_has_one_line_per_method_with_its_whole_summary(capsys: Capture) -> None:
    code, out, err = typed(capsys, "methods")
    assert (code, err) == (0, "")
    assert slugs(out) == set(methods.CATALOGUE)
    for row in out.splitlines():
        if row.startswith("  "):
            assert row.endswith(methods.CATALOGUE[row.split()[0]].summary)


def test_list_is_grouped_by_family_with_a_sentence_each(capsys: Capture) -> None:
    out = typed(capsys, "methods")[1]
    headings = [row for row in out.splitlines() if row and not row.startswith("  ")]
    assert headings == [f"{name}: {sentence}" for name, sentence in methods.FAMILIES.items()]
    family = ""
    for row in out.splitlines():
        if row.startswith("  "):
            assert methods.CATALOGUE[row.split()[0]].family == family
        else:
            family = row.partition(":")[0]


def test_list_has_no_colour_codes_in_a_pipe(capsys: Capture) -> None:
    assert "\x1b" not in typed(capsys, "methods")[1]
    assert "\x1b" not in typed(capsys, "methods show grpo")[1]


@pytest.mark.parametrize("family", list(methods.FAMILIES))
def test_family_filter_finds_all_of_a_family(capsys: Capture, family: str) -> None:
    folder = Path(methods.__file__).parent / family
    files = {file.stem.replace("_", "-") for file in folder.glob("*.py") if not file.stem.startswith("_")}
    assert slugs(typed(capsys, f"methods --family {family}")[1]) == files


def test_an_unknown_family_gets_the_list(capsys: Capture) -> None:
    err = typed(capsys, "methods --family xyzzy")[2]
    assert err == f"Error: There is no family 'xyzzy'. The families are {', '.join(methods.FAMILIES)}.\n"


def test_kind_filter(capsys: Capture) -> None:
    assert slugs(typed(capsys, "methods --kind method")[1]) == {
        e.slug for e in methods.CATALOGUE.values() if e.kind == "method"
    }


def test_stage_filter_finds_who_drops_groups_and_not_who_does_not(capsys: Capture) -> None:
    found = slugs(typed(capsys, "methods --stage keep")[1])
    assert "dapo" in found
    assert "grpo" not in found


def test_plain_update_plan_is_no_part_of_its_own(capsys: Capture) -> None:
    found = slugs(typed(capsys, "methods --stage updates")[1])
    assert "real" in found  # four mini-batches
    assert "gpg" not in found


def test_search_reads_notes_and_ignores_case(capsys: Capture) -> None:
    found = [row.split()[0] for row in typed(capsys, "methods --search GEOMETRIC")[1].splitlines()]
    assert "gspo" in found
    assert typed(capsys, "methods --search xyzzy")[1] == "No entry of the catalogue matches.\n"


def test_filters_narrow_each_other(capsys: Capture) -> None:
    assert slugs(typed(capsys, "methods --family base --stage keep")[1]) == {"dapo"}


@pytest.mark.parametrize(
    ("line", "near"), [("--family bse", "'base'"), ("--kind metod", "'method'"), ("--stage kep", "'keep'")]
)
def test_misspelt_filter_gets_the_nearest_name(capsys: Capture, line: str, near: str) -> None:
    code, out, err = typed(capsys, f"methods {line}")
    assert (code, out) == (2, "")
    assert near in err


# -- show ----------------------------------------------------------------------------------------------------------


def test_show_has_formula_stages_settings_needs_presets_and_citation(capsys: Capture) -> None:
    code, out, _ = typed(capsys, "methods show grpo --all")
    entry = methods.CATALOGUE["grpo"]
    assert code == 0
    assert entry.summary in out
    assert entry.citation in out
    assert entry.notes.splitlines()[0] in out
    assert "advantage.unbiased" in out
    assert "# divide by n − 1" in out
    assert "Signal('logp', of='ref')" in out
    assert "grpo@nemo\n      advantage.centre = 'leave_one_out'" in out


def test_show_has_only_the_settings_that_differ_from_the_defaults(capsys: Capture) -> None:
    out = typed(capsys, "methods show grpo")[1]
    assert "advantage.unbiased" not in out
    assert "objective.KL.coefficient" in out
    assert "objective.PolicyGradient.clip" in out
    assert "podium methods show grpo --all" in out
    assert "--all" not in typed(capsys, "methods show grpo --all")[1]


@pytest.mark.parametrize("name", ["grpo", "grpo@nemo", "gigpo", "drive", "spo-single-stream"])
@pytest.mark.parametrize("option", ["", " --all"])
def test_show_says_the_same_of_the_catalogue_and_of_the_method_itself(capsys: Capture, name: str, option: str) -> None:
    method = methods.get(name)
    show_method(name, method.summary, method.citation, method_text(method), read_catalogue().entry(name), bool(option))
    assert capsys.readouterr().out == typed(capsys, f"methods show {name}{option}")[1]


def test_show_never_cuts_a_line(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert methods.CATALOGUE["grpo"].citation in typed(capsys, "methods show grpo")[1]
    assert methods.CATALOGUE["grpo"].summary in typed(capsys, "methods")[1]


def test_show_names_memories_and_the_columns_of_the_world(capsys: Capture) -> None:
    out = typed(capsys, "methods show rulereasoner")[1]
    assert "memories: DomainRewards, PassRates" in out
    assert "rollout.answer" in typed(capsys, "methods show copo")[1]


def test_yaml_gives_the_method_back(capsys: Capture) -> None:
    out = typed(capsys, "methods show grpo@verl --yaml")[1]
    assert Method.from_yaml(out) == methods.get("grpo@verl")


@pytest.mark.parametrize("slug", list(methods.CATALOGUE))
def test_every_method_can_be_shown(capsys: Capture, slug: str) -> None:
    code, out, err = typed(capsys, f"methods show {slug}")
    assert (code, err) == (0, "")
    assert out.startswith((f"{slug}\n", f"{slug}: "))  # a method in phases is described phase by phase


def test_set_changes_a_setting_of_a_part_or_an_argument_of_the_recipe(capsys: Capture) -> None:
    out = typed(capsys, "methods show grpo --set advantage.scale=none --set kl=0 --yaml")[1]
    assert Method.from_yaml(out) == methods.get("grpo", kl=0).set("advantage.scale", "none")


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("advantage.epsilon=3e-4", 3e-4),
        ("advantage.epsilon=1", 1),
        ("advantage.unbiased=false", False),
        ("advantage.limit=null", None),
        ("advantage.key=[group,rollout.half]", ("group", "rollout.half")),
        ("advantage.of=rollout.score", "rollout.score"),
    ],
)
def test_values_are_read_as_what_they_look_like(change: str, value: object) -> None:
    found = getattr(load("grpo", [change]).advantage, change.partition("=")[0].partition(".")[2])
    assert found == value
    assert type(found) is type(value)


def test_schedule_can_be_set() -> None:
    method = load("grpo", ["objective.KL.coefficient={Linear: {start: 0.1, end: 0.0, over: 10}}"])
    assert repr(method.objective[1].coefficient) == "Linear(start=0.1, end=0.0, over=10)"


# -- check ---------------------------------------------------------------------------------------------------------


def test_check_names_the_missing_columns_and_fails(capsys: Capture) -> None:
    code, out, _ = typed(capsys, "methods check gigpo --world sums")
    assert code == 1
    assert "'step.state'" in out


def test_check_passes_where_the_world_writes_them(capsys: Capture) -> None:
    code, out, _ = typed(capsys, "methods check gigpo --columns step.reward,step.state,turn.valid")
    assert (code, out) == (0, "gigpo: no errors and no warnings on a world with these columns.\n")


def test_warning_alone_does_not_fail(capsys: Capture, tmp_path: Path) -> None:
    from podium import shape

    path = tmp_path / "twice.yaml"
    path.write_text((methods.grpo() | shape.Whiten()).to_yaml())
    code, out, _ = typed(capsys, f"methods check {path}")
    assert code == 0
    assert out.startswith("warning: advantages are divided by a spread twice")


# -- compare -------------------------------------------------------------------------------------------------------


def test_compare_prints_what_each_preset_makes_of_the_rewards(capsys: Capture) -> None:
    rows = [row.split() for row in typed(capsys, "methods compare grpo --rewards 1,0,0,0")[1].splitlines()]
    numbers = {row[0]: row[1:] for row in rows[1:7]}
    assert numbers["grpo@verl"] == ["1.5000", "-0.5000", "-0.5000", "-0.5000"]
    assert numbers["grpo@nemo"][0] == "1.0000"
    assert any(row[:2] == ["grpo@trl", "advantage.epsilon"] for row in rows)


def test_compare_says_why_a_method_cannot_take_part(capsys: Capture) -> None:
    code, out, _ = typed(capsys, "methods compare rloo ppo real")
    assert code == 0
    assert "rloo    1.0000  -0.3333" in out
    assert "ppo: The batch has no column 'token.old.value'" in out
    assert "real: it has no advantage" in out


# -- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("metods", "'methods'"),
        ("methods shwo grpo", "'show'"),
        ("methods grpo@verl", "podium methods show grpo@verl"),
        ("methods show", "METHOD"),
        ("methods show grop", "'grpo'"),
        ("methods show grpo@verll", "'verl'"),
        ("methods show grpo --set advantage.scal=none", "'scale'"),
        ("methods show grpo --set advantage.scale=nonee", "'none'"),
        ("methods show grpo --set advantage", "PATH=VALUE"),
        ("methods show grpo --set klx=1", "'kl'"),
        ("methods show grpo --set advantage.epsilon=-1", "out of range [0, inf]"),
        ("methods show grpo --set advantage.key=[", "is not a value"),
        ("methods show grpo --nope", "--nope"),
        ("methods show missing.yaml", "missing.yaml"),
        ("methods check gigpo --columns state", "turn.state"),
        ("methods compare grpo --rewards 1,x", "1,0,0,0"),
        ("methods compare grpo --rewards 1,nan", "nan"),
    ],
)
def test_bad_input_is_one_line_on_the_error_stream_with_a_remedy(capsys: Capture, line: str, said: str) -> None:
    code, out, err = typed(capsys, line)
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert said in err


@pytest.mark.parametrize(
    ("text", "said"), [("a: [", "is not YAML"), ("- 1", "mapping"), ("name: x\nshap: []", "'shape'")]
)
def test_broken_method_file_is_refused_in_words(capsys: Capture, tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    code, _, err = typed(capsys, f"methods show {path}")
    assert code == 2
    assert said in err


def test_argument_of_a_recipe_has_no_meaning_for_a_file(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine")
    assert "has no recipe" in typed(capsys, f"methods show {path} --set kl=0")[2]


# -- the program ---------------------------------------------------------------------------------------------------


def test_version(capsys: Capture) -> None:
    assert typed(capsys, "--version") == (0, f"podium {__version__}\n", "")


def test_help_without_a_command(capsys: Capture) -> None:
    code, out, _ = typed(capsys, "")
    assert code == 0
    assert "methods" in out


def test_program_ends_with_the_exit_code_and_without_a_traceback() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "podium.cli", "methods", "show", "grop"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    assert "'grpo'" in ended.stderr
