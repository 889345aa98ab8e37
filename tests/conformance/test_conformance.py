"""The library reproduces every reference, and the runner would notice if it did not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.__main__ import main
from tests.conformance.case import Case, VectorFile, load
from tests.conformance.compare import FLOAT32, FLOAT64, deviation, tolerance
from tests.conformance.registry import adapter, adapters
from tests.conformance.runner import read, run

RLOO = {"rewards": [1.0, 0.0, 0.0], "group_ids": [0, 0, 0], "mask": [[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]]}


@pytest.mark.parametrize("slug", [slug for slug, _ in read()])
def test_the_library_reproduces_the_reference(slug: str) -> None:
    for report in run(only=[slug]):
        assert report.ok, "\n".join(map(str, report.failures))


def test_every_adapter_has_vectors_here() -> None:
    assert set(adapters()) == {slug for slug, _ in read()}


def test_rollouts_without_an_advantage_count_in_the_share_of_clipped_tokens() -> None:
    inputs = {"old_logp": [[-1.0], [-1.0]], "logp": [[-0.5], [-0.5]], "mask": [[1.0], [1.0]]}
    for advantage, share in (([[1.0], [0.0]], 0.5), ([[0.0], [0.0]], 0.0)):
        case = Case.of("dapo", inputs | {"advantage_per_token": advantage})
        assert adapters()["dapo"](case)["clip_fraction"] == share


def test_an_empty_reasoning_is_followed_by_the_answer_like_any_other() -> None:
    inputs = {"answer_logp": [[-1.0], [-2.0]], "answer_mask": [[1.0], [1.0]], "group_size": 2}
    case = Case.of("likelihood-reward", inputs | {"cot_logp": [[-3.0], [-3.0]], "cot_mask": [[1.0], [0.0]]})
    found = adapters()["likelihood-reward"](case)
    assert found["jepo_answer_weight"].tolist() == pytest.approx([0.731059, 0.268941], abs=1e-6)
    assert found["loss"]["logprob"] == pytest.approx(-(1.0 * -3.0 - 1.0 - 2.0) / 2)


# -- the runner --------------------------------------------------------------------------------------------------------


def write(directory: Path, name: str, cases: Any, **fields: Any) -> None:
    data = {"slug": name, "source": "own implementation", "cases": cases} | fields
    (directory / f"{name}.json").write_text(json.dumps(data), encoding="utf-8")


def rloo(*advantage: float) -> dict[str, Any]:
    return {"inputs": RLOO, "hyper": {}, "note": "three", "expected": {"advantage_per_rollout": list(advantage)}}


def test_all_right_is_exit_code_0_and_a_total(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "rloo", [rloo(1.0, -0.5, -0.5)])
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == ["rloo: 1/1", "total: 1/1 cases, 1/1 slugs"]


def test_a_wrong_expected_value_fails_with_its_case_key_and_deviation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "rloo", [rloo(1.0, -0.5, -0.5), rloo(1.0, -0.5, -0.50001)])
    assert main([str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines() == ["rloo: 1/2", "total: 1/2 cases, 0/1 slugs"]
    for words in ("rloo", "case 1 (three)", "advantage_per_rollout", "at [2]", "off by 1.0e-05"):
        assert words in err


def test_a_file_without_adapter_fails_with_all_its_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "no-such-method", [rloo(1.0, -0.5, -0.5)] * 3)
    assert main([str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines() == ["no-such-method: 0/3", "total: 0/3 cases, 0/1 slugs"]
    assert "no adapter is registered for 'no-such-method'" in err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "broken.json is not JSON"),
        ("[]", "must be an object with a list of 'cases'"),
        ('{"cases": []}', "has no cases"),
    ],
)
def test_a_malformed_file_fails_with_one_message_and_the_others_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    (tmp_path / "broken.json").write_text(text, encoding="utf-8")
    write(tmp_path, "rloo", [rloo(1.0, -0.5, -0.5)])
    assert main([str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines() == ["broken: 0/1", "rloo: 1/1", "total: 1/2 cases, 1/2 slugs"]
    assert reason in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (3, "the case is not an object"),
        ({"inputs": RLOO, "expected": {}}, "the case has no 'expected'"),
        ({"expected": {"x": 1}}, "the case has no 'inputs'"),
        ({"inputs": {"rewards": [1.0]}, "expected": {"advantage_per_rollout": [1.0]}}, "no input 'group_ids'"),
        ({"inputs": RLOO, "expected": {"unheard_of": 1.0}}, "gives no value for this key"),
        ({"inputs": RLOO, "expected": {"advantage_per_rollout": [1.0, -0.5]}}, "expected 2 values, got 3"),
    ],
)
def test_a_case_that_cannot_run_fails_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: Any, reason: str
) -> None:
    write(tmp_path, "rloo", [case, rloo(1.0, -0.5, -0.5)])
    assert main([str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "rloo: 1/2"
    assert "case 0" in err
    assert reason in err


def test_a_failure_names_the_settings_that_were_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "rloo", [rloo(1.0, -0.5, -0.4) | {"hyper": {"temperature": 2.0}}])
    main([str(tmp_path)])
    assert "did not read: temperature" in capsys.readouterr().err


def test_only_runs_the_named_slugs_and_suggests_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "rloo", [rloo(1.0, -0.5, -0.5)])
    write(tmp_path, "no-such-method", [rloo(0.0)])
    assert main([str(tmp_path), "--only", "rloo"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "total: 1/1 cases, 1/1 slugs"
    with pytest.raises(SystemExit) as stop:
        main([str(tmp_path), "--only", "rlo"])
    assert stop.value.code != 0
    assert "Did you mean 'rloo'?" in capsys.readouterr().err


def test_a_directory_without_vectors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stop:
        main([str(tmp_path)])
    assert stop.value.code != 0


def test_results_are_written_as_json(tmp_path: Path) -> None:
    write(tmp_path, "rloo", [rloo(1.0, -0.5, -0.5), rloo(0.0, 0.0, 0.0)])
    target = tmp_path / "out" / "results.json"
    target.parent.mkdir()
    assert main([str(tmp_path), "--json", str(target)]) == 1
    results = json.loads(target.read_text(encoding="utf-8"))
    assert results["summary"] == "total: 1/2 cases, 0/1 slugs"
    (slug,) = results["slugs"]
    assert (slug["slug"], slug["passed"], slug["total"]) == ("rloo", 1, 2)
    (failure,) = slug["failures"]
    assert (failure["case"], failure["key"], failure["deviation"]) == (1, "advantage_per_rollout", 1.0)


def test_a_slug_cannot_have_two_adapters() -> None:
    with pytest.raises(ValueError, match="rloo has two adapters"):
        adapter("rloo")(lambda case: {})


# -- what counts as equal ----------------------------------------------------------------------------------------------


def file(source: str, **expected: Any) -> VectorFile:
    return VectorFile("x", source, [Case("x", 0, "", {}, Case.of("x", {}).hyper, expected)])


def test_digits_that_only_float64_has_make_the_tolerance_strict() -> None:
    assert tolerance(file("reference code", a=[0.333333333]), "a") == FLOAT64


def test_long_numbers_that_are_float32_make_it_loose_for_their_key_alone() -> None:
    mixed = file("own implementation", a=[0.333333343, 0.666666687], b=[0.333333333, 0.5], c=[0.5])
    assert [tolerance(mixed, key) for key in "abc"] == [FLOAT32, FLOAT64, FLOAT64]


def test_without_telling_digits_the_source_decides() -> None:
    assert tolerance(file("reference code of somebody", a=[0.5, 1.0]), "a") == FLOAT32
    assert tolerance(file("own implementation of the card", a=[0.5, 1.0]), "a") == FLOAT64


def test_the_tolerances_of_the_references_here() -> None:
    loose = set()
    for slug, found in read():
        assert isinstance(found, VectorFile)
        keys = {key for case in found.cases if isinstance(case, Case) for key in case.expected}
        loose |= {(slug, key) for key in keys if tolerance(found, key) == FLOAT32}
    assert loose == {
        ("adhint", "advantages"),
        ("adhint", "base_advantages"),
        ("arenarl", "anchor"),
        ("arenarl", "judge_calls"),
        ("arenarl", "round_robin"),
        ("arenarl", "seeded_single_elimination"),
        ("ares-aepo", "percentile95"),
        ("cpl", "accuracy"),
        ("dars", "advantages"),
        ("dars", "extra_equal_treatment"),
        ("dars", "extra_hardness_weighted"),
        ("dr-kernel", "keep_probability"),
        ("dr-kernel", "turn_advantage"),
        ("dr-kernel", "turn_return"),
        ("dr-kernel", "turn_reward"),
        ("entropy-discriminator-clip", "fraction_clipped"),
        ("epo", "mean_penalty"),
        ("epo", "penalty_per_token"),
        ("expo-hm", "entropy_nats"),
        ("gigpo", "advantage"),
        ("gigpo", "episode_advantage"),
        ("gigpo", "step_return"),
        ("grpo-tcr", "overlong"),
        ("hgpo", "advantage"),
        ("hgpo", "step_return"),
        ("hill", "hint_reward_non_deg"),
        ("hiper", "action_advantage"),
        ("hiper", "high_return"),
        ("hiper", "low_return"),
        ("hiper", "subgoal_advantage"),
        ("hiper", "switch_advantage"),
        ("implicit-prm", "ce_loss"),
        ("mars", "advantage"),
        ("mars", "normalized_token_reward"),
        ("mars", "return_to_go"),
        ("matchtir", "turn_advantage"),
        ("pacs", "weight"),
        ("r3", "advantages"),
        ("real", "bce_loss"),
        ("refine", "reward"),
        ("remax", "advantage_per_token"),
        ("remax", "returns"),
        ("rlvmr", "advantage"),
        ("rlvmr", "episode_advantage"),
        ("rlvmr", "meta_advantage"),
        ("rlvmr", "meta_reward"),
        ("rlvmr", "turn_tag"),
        ("rose", "score"),
        ("rose", "token_advantages"),
        ("rover", "next_value"),
        ("seeupo", "carried_ratio"),
        ("seeupo", "turn_advantage"),
        ("siren", "full_entropy"),
        ("siren", "kept"),
        ("siren", "loss"),
        ("siren", "mean_entropy"),
        ("siren", "nucleus_entropy"),
        ("slea-rl", "admitted"),
        ("slea-rl", "advantage"),
        ("slea-rl", "episode_advantage"),
        ("slea-rl", "existing_scores_after"),
        ("slea-rl", "final"),
        ("slea-rl", "novel"),
        ("slea-rl", "step_return"),
        ("sparkle", "prefixes"),
        ("sparkle", "reward"),
        ("sparkle", "segments"),
        ("spear", "advantages"),
        ("srgpo", "advantage"),
        ("srgpo", "episode_advantage"),
        ("srgpo", "step_advantage"),
        ("st-ppo", "scale"),
        ("steer", "grad_logp"),
        ("steer", "loss"),
        ("steer", "weights"),
        ("think-rm", "advantages"),
        ("trapo", "label"),
        ("trapo", "rewards"),
        ("trapo", "selected"),
        ("trapo", "similarity"),
        ("trapo", "top"),
        ("verl-effective-rank", "effective_rank"),
        ("vspo-prs", "resample_probability"),
    }


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (1.0, 1.0 + 2e-6),
        ([1.0, 0.001], [1.0, 0.001 + 1e-7]),
        (0.0, 1e-7),
        (1.0, float("nan")),
        (float("nan"), 1.0),
        (float("inf"), 1.0),
        (True, False),
        (True, 1.0),
        ([], [[0, 1]]),
        ([[0, 1]], []),
        ([[1.0, 2.0]], [1.0, 2.0]),
        ({"0": [1.0]}, {"1": [1.0]}),
        (None, 0.0),
        (1.0, None),
    ],
)
def test_what_differs_is_told_apart(expected: Any, actual: Any) -> None:
    assert deviation(expected, actual, FLOAT64) is not None


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (1.0, 1.0 + 5e-7),
        ([100.0, 0.0], [100.0, 5e-7]),
        (0.0, -0.0),
        (1, 1.0),
        (float("nan"), float("nan")),
        (float("-inf"), float("-inf")),
        ([[True], []], [[True], []]),
        ({"0": [1.0]}, {0: [1.0]}),
    ],
)
def test_what_agrees_passes(expected: Any, actual: Any) -> None:
    assert deviation(expected, actual, FLOAT64) is None


def test_a_files_own_slug_finds_the_adapter(tmp_path: Path) -> None:
    write(tmp_path, "rloo-again", [rloo(1.0, -0.5, -0.5)], slug="rloo")
    loaded = load(tmp_path / "rloo-again.json")
    assert isinstance(loaded, VectorFile)
    assert loaded.slug == "rloo"
    assert main([str(tmp_path), "--only", "rloo"]) == 0
