"""`podium eval`, as typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from podium.cli import main
from podium.cli.evaluate import expand_options
from podium.sessions.train import train
from tests.sessions.test_train import small

Capture = pytest.CaptureFixture[str]
MODEL = "podium/tiny --world echo --tasks 4"


def typed(capsys: Capture, line: str) -> tuple[int, str, str]:
    code = main(["eval", *line.split()])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "mine"
    train(small(iterations=1), out=out)
    return out


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("eval x --k 1 8 64", "eval x --k 1 --k 8 --k 64"),
        ("eval --k 1 8 x --tasks 4", "eval --k 1 --k 8 x --tasks 4"),
        ("eval x --k 1,8 64 --seed 3", "eval x --k 1,8 --k 64 --seed 3"),
        ("eval x --k 1 --k 8 9", "eval x --k 1 --k 8 --k 9"),
        ("eval x --tasks 4 5", "eval x --tasks 4 5"),
        ("eval x --k=4 8", "eval x --k=4 8"),
        ("eval x --k", "eval x --k"),
    ],
)
def test_an_option_takes_the_numbers_after_it(line: str, meant: str) -> None:
    assert expand_options(line.split()) == meant.split()


@pytest.mark.parametrize("ks", ["--k 1 2 4", "--k 1,2,4", "--k 1 --k 2 --k 4"])
def test_every_form_of_k_prints_the_same_table(capsys: Capture, ks: str) -> None:
    code, out, err = typed(capsys, f"{MODEL} {ks}")
    assert (code, err) == (0, "")
    rows = {row.split()[0]: row.split()[1:] for row in out.splitlines()[1:]}
    assert list(rows) == [
        *("reward", "pass@1", "pass@2", "avg@2", "maj@2", "pass@4", "avg@4", "maj@4"),
        *("distinct", "length", "entropy"),
    ]
    for mean, low, high in rows.values():
        assert float(low.strip("[,")) <= float(mean) <= float(high.strip("]"))


def test_json_has_every_measure_with_its_interval(capsys: Capture) -> None:
    code, out, _ = typed(capsys, f"{MODEL} --k 1 2 --json")
    found = json.loads(out)
    assert code == 0
    assert {"pass@1", "pass@2", "avg@2", "maj@2", "length", "entropy", "distinct"} <= set(found)
    assert set(found["pass@1"]) == {"mean", "low", "high"}


def test_more_samples_than_k_narrow_the_estimate(capsys: Capture) -> None:
    found = json.loads(typed(capsys, f"{MODEL} --k 1 --samples 8 --json")[1])
    assert found["pass@1"]["mean"] * 4 * 8 == pytest.approx(round(found["pass@1"]["mean"] * 4 * 8))


def test_temperature_zero_is_the_most_likely_answer(capsys: Capture) -> None:
    found = json.loads(typed(capsys, f"{MODEL} --k 2 --temperature 0 --json")[1])
    assert found["avg@2"]["mean"] in (0, 0.25, 0.5, 0.75, 1.0)  # both answers to a task are the same
    assert found["pass@2"] == found["avg@2"] == found["maj@2"]


def test_a_run_is_measured_on_its_own_world_or_another(capsys: Capture, run: Path) -> None:
    assert typed(capsys, f"{run} --k 1 --tasks 4")[0] == 0
    assert typed(capsys, f"{run} --k 1 --tasks 4 --level 3")[0] == 0
    assert typed(capsys, f"{run} --k 1 --tasks 4 --world sums --set world.noise=0.5")[0] == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("podium/tiny", "podium/tiny is a model and has no world of its own: name one with --world."),
        ("podium/huge --world echo", "There is no embedded model 'podium/huge'."),
        ("podium/tiny --world ecco", "There is no world 'ecco'. Did you mean 'echo' or 'code'?"),
        ("podium/tiny --world echo --level 9", "echo has no level 9: its levels are"),
        ("podium/tiny --world echo --set world.nose=1", "has no setting 'nose'. Did you mean 'noise'?"),
        ("podium/tiny --world echo --k 8 --samples 4", "pass@8 needs at least 8 samples a task, not 4."),
        ("podium/tiny --world echo --k 0", "k = 0 must be at least 1."),
        ("podium/tiny --world echo --k many", "--k 'many' is not a number: write --k 1 8 64."),
        ("podium/tiny --world echo --tasks 0", "tasks = 0 must be at least 1."),
        ("podium/tiny --world echo --temperature -1", "Sampling.temperature = -1.0 is out of range"),
        ("podium/tiny --world jsonl:none.jsonl", "There is no file 'none.jsonl'"),
        ("", "Missing argument"),
        ("podium/tiny --k", "requires an argument"),
    ],
)
def test_bad_input_is_one_line(capsys: Capture, line: str, words: str) -> None:
    code, out, err = typed(capsys, line)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_what_is_not_there_gets_the_nearest_run(capsys: Capture, run: Path, tmp_path: Path) -> None:
    err = typed(capsys, f"{run.parent}/mint --world echo")[2]
    assert f"There is no run or model {run.parent}/mint. Did you mean '{run}'?" in err
    assert "neither a run (it has no config.yaml) nor a model" in typed(capsys, f"{tmp_path} --world echo")[2]


def test_a_run_without_a_checkpoint_is_said(capsys: Capture, run: Path, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text((run / "config.yaml").read_text())
    assert "has no checkpoint yet" in typed(capsys, str(tmp_path))[2]


def test_a_world_without_held_out_tasks_is_said(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text('{"question": "1 + 1", "answer": "2"}\n')
    err = typed(capsys, f"podium/tiny --world jsonl:{file} --set world.held_out=0")[2]
    assert "no held-out tasks" in err


# -- beside another model ----------------------------------------------------------------------------------------------


def test_a_run_is_set_beside_the_model_that_it_started_from(capsys: Capture, run: Path) -> None:
    code, out, err = typed(capsys, f"{run} --compare --k 1 4 --tasks 4")
    assert (code, err) == (0, "")
    for words in ("pass@4", "token entropy", "answer entropy", "The pass@k curves", "retention SRR", "net change NSCR"):
        assert words in out
    assert "Support at k = 4" in out


def test_a_model_beside_itself_keeps_everything(capsys: Capture) -> None:
    found = json.loads(typed(capsys, f"{MODEL} --compare podium/tiny --k 1 8 --json")[1])
    assert found["base"] == found["trained"]  # the same prompts and the same random numbers
    assert found["support"]["retention"]["mean"] == 1.0
    assert found["support"]["expanded"] == found["support"]["shrunk"] == 0
    assert found["crossings"] == []
    assert len(found["tasks"]) == 4


def test_a_run_beside_a_model_uses_the_world_of_either(capsys: Capture, run: Path) -> None:
    assert typed(capsys, f"podium/tiny --compare {run} --samples 2 --tasks 2")[0] == 0
    assert typed(capsys, f"{run} --compare {run} --samples 2 --tasks 2 --level 1")[0] == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("podium/tiny --compare", "podium/tiny is a model, which did not start from another: name one with --compare"),
        ("podium/tiny --compare podium/tiny", "have no world of their own: name one with --world."),
        ("podium/tiny --world echo --compare podium/huge", "There is no embedded model 'podium/huge'."),
        ("podium/tiny --world echo --compare podium/tiny --k 8 --samples 4", "pass@8 needs at least 8 samples"),
    ],
)
def test_bad_comparisons_are_one_line(capsys: Capture, line: str, words: str) -> None:
    code, out, err = typed(capsys, line)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


# -- reward against divergence -----------------------------------------------------------------------------------------


def test_a_run_lies_in_the_plane_of_reward_and_divergence(capsys: Capture, run: Path) -> None:
    code, out, err = typed(capsys, f"{run} --frontier --samples 4 --tasks 4")
    assert (code, err) == (0, "")
    for words in ("best of 4", "optimum at that KL", "KL of the trained", "below the frontier", "the frontier."):
        assert words in out
    assert (run / "frontier.svg").read_text().count("<circle") == 4  # best of 1, 2 and 4, and the run


def test_a_model_does_not_diverge_from_itself(capsys: Capture) -> None:
    found = json.loads(typed(capsys, f"{MODEL} --frontier --compare podium/tiny --samples 4 --json")[1])
    assert found["KL of the trained"] == {"mean": 0.0, "low": 0.0, "high": 0.0}
    assert found["reward of the base"] == found["reward of the trained"]
    assert found["below the frontier"]["mean"] == pytest.approx(0.0, abs=1e-2)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("podium/tiny --world echo --frontier", "did not start from another: name one with --compare MODEL."),
        ("podium/tiny --frontier --compare podium/tiny", "have no world of their own: name one with --world."),
        ("podium/tiny --frontier --temperature 0.5", "at temperature 1."),
        ("podium/tiny --world echo --frontier --compare podium/tiny --samples 0", "samples = 0 must be at least 1."),
    ],
)
def test_a_frontier_that_cannot_be_drawn_is_one_line(capsys: Capture, line: str, words: str) -> None:
    code, out, err = typed(capsys, line)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
