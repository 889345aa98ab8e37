"""Credit against exact advantages: the estimators see what they would in training, and the numbers are right."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from podium import methods
from podium.analysis.agreement import correlation, error, expected, gradient, sign_errors, sums, variance
from podium.analysis.credit import (
    CreditScore,
    Estimator,
    _gradients,
    compare_estimators,
    credit,
    fitting,
    oracles,
    references,
    walked,
)
from podium.cli.app import main
from podium.core.errors import PodiumError
from podium.evaluation.resample import estimate
from podium.worlds import KeyDoor, Lookup
from podium.worlds.oracle import Oracle

KNOWN = oracles(KeyDoor(level=2), 3, strength=0.5)
SLIPPERY = oracles(KeyDoor(level=2, slip=0.2), 3, strength=0.5)
ASKED = oracles(Lookup(level=2, cost=0.05), 3, strength=1.5)


def scores(names: list[str], *, slip: float = 0.0, seeds: int = 12) -> dict[str, CreditScore]:
    estimators = [Estimator(name, methods.get(name)) for name in names] + references()
    world = KeyDoor(level=2, slip=slip)
    return {s.name: s for s in compare_estimators(estimators, world, strength=0.5, rollouts=8, tasks=4, seeds=seeds)}


@pytest.fixture(scope="module")
def plain() -> dict[str, CreditScore]:
    return scores(["grpo", "rloo", "gigpo", "salt"])


def test_a_batch_has_the_structure_of_training() -> None:
    batch = walked(KNOWN, 5, seed=0).batch
    assert (batch.size("group"), len(batch)) == (3, 15)
    assert batch.size("turn") == batch.size("token")
    torch.testing.assert_close(batch.reduce(batch["turn.reward"], "turn", "rollout", "sum"), batch["rollout.reward"])
    goes_on = batch.link("turn", "rollout")[1:] == batch.link("turn", "rollout")[:-1]
    state, after = np.array(batch["turn.state"]), np.array(batch["turn.next_state"])
    assert (state[1:] == after[:-1])[goes_on.numpy()].all()
    assert set(after[batch["turn.reward"].numpy() == 1]) <= {"end"}


def test_a_wrong_answer_ends_a_rollout_without_reward_and_turns_cost() -> None:
    batch = walked(ASKED, 40, seed=0).batch
    paid = batch.reduce(batch["turn.reward"], "turn", "rollout", "sum")
    torch.testing.assert_close(paid, batch["rollout.reward"])
    right, answers = batch["rollout.correct"], batch["rollout.answer"]
    assert all(answers[i].startswith("answer: ") for i in right.nonzero().flatten())
    assert any(answer.startswith("answer: ") for answer, won in zip(answers, right, strict=True) if not won)
    turns = batch.reduce(torch.ones(batch.size("turn"), dtype=torch.float64), "turn", "rollout", "sum")
    torch.testing.assert_close(paid[right], 1 - 0.05 * (turns[right] - 1))


def test_the_same_seed_gives_the_same_rollouts_whatever_the_noise() -> None:
    first, noisy, other = walked(KNOWN, 4, 1), walked(KNOWN, 4, 1, noise=0.5), walked(KNOWN, 4, 2)
    assert first.batch["turn.state"] == noisy.batch["turn.state"] != other.batch["turn.state"]
    assert not torch.equal(first.batch["token.old.value"], noisy.batch["token.old.value"])


def test_one_step_of_exact_values_is_exact_where_nothing_slips(plain: dict[str, CreditScore]) -> None:
    found = plain["gae, exact values, lam 0"].measures
    assert found["correlation"].mean == pytest.approx(1.0)
    assert found["sign errors"].mean == pytest.approx(0.0, abs=1e-9)
    assert found["error"].mean == pytest.approx(0.0, abs=1e-9)


def test_slips_cost_even_exact_values_their_certainty() -> None:
    found = scores([], slip=0.3, seeds=4)["gae, exact values, lam 0"].measures
    assert 0.3 < found["correlation"].mean < 0.95


def test_longer_traces_and_wrong_values_credit_worse(plain: dict[str, CreditScore]) -> None:
    def of(name: str) -> float:
        return plain[name].measures["correlation"].mean

    assert of("gae, exact values, lam 0") > of("gae, exact values, lam 0.95") > of("gae, exact values, lam 1")
    assert of("gae, exact values, lam 0") > of("gae, values ± 0.1, lam 0")


def test_unbiased_estimators_have_the_exact_gradient_in_expectation(plain: dict[str, CreditScore]) -> None:
    for name in ("rloo", "gae, exact values, lam 1"):
        found = plain[name].measures["expected"]
        assert found.high > 0.99
        assert found.mean > 0.8


def test_averaging_over_shared_edges_leaves_the_gradient_of_a_table_as_it_is(plain: dict[str, CreditScore]) -> None:
    grpo, salt = plain["grpo"].measures, plain["salt"].measures
    assert salt["gradient"].mean == pytest.approx(grpo["gradient"].mean)
    assert salt["correlation"].mean > grpo["correlation"].mean  # only the credit of single steps gets better


@pytest.mark.parametrize("known", [SLIPPERY, ASKED])
def test_the_estimated_gradient_averages_to_the_exact_one(known: list[Oracle]) -> None:
    rollouts = 20_000
    sample = walked(known, rollouts, seed=0)
    for made, one in zip(_gradients(known, sample, sample.exact, rollouts), known, strict=True):
        exact = one.gradient.reshape(-1)
        assert np.abs(made - exact).max() < 0.01
        assert made @ exact / np.sqrt((made @ made) * (exact @ exact)) > 0.99


def test_credit_is_the_advantage_times_the_weight_of_what_is_trained() -> None:
    batch = walked(KNOWN, 4, seed=0).batch
    plain = credit(methods.get("grpo"), batch)
    halved = batch.with_columns({"rollout.weight.mine": torch.full((len(batch),), 0.5)})
    torch.testing.assert_close(credit(methods.get("grpo"), halved), plain / 2)
    none = batch.with_columns({"rollout.keep.mine": torch.zeros(len(batch), dtype=torch.bool)})
    assert not credit(methods.get("grpo"), none).any()


def test_methods_that_read_words_or_a_model_are_left_out_with_the_reason() -> None:
    chosen = [methods.get(name) for name in ("grpo", "gigpo", "hgpo", "salt", "igpo")]
    fit, refused = fitting(chosen, Lookup(level=1))
    assert [e.name for e in fit] == ["grpo", "gigpo", "hgpo", "salt"]
    assert "igpo: AnswerGain() needs" in refused["igpo"]


def test_differences_are_paired(plain: dict[str, CreditScore]) -> None:
    grpo, salt, gigpo = (plain[name].measures for name in ("grpo", "salt", "gigpo"))
    assert (grpo["ahead"].low, grpo["ahead"].high) == (0.0, 0.0)
    assert abs(salt["ahead"].high) < 1e-9
    assert gigpo["ahead"].mean == pytest.approx(gigpo["gradient"].mean - grpo["gradient"].mean)
    width = gigpo["gradient"].high - gigpo["gradient"].low
    assert gigpo["ahead"].high - gigpo["ahead"].low < width


def test_statistics_by_hand() -> None:
    x, y = np.array([2.0, -2.0, 0.0, 2.0]), np.array([1.0, -1.0, 2.0, -1.0])
    s = np.hstack([sums(x, y, np.zeros(4, dtype=np.int64), 1), [[4.0, 9.0, 3.0]]])
    assert correlation(s)[0] == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert sign_errors(s)[0] == pytest.approx((0 + 0 + 1 + 1) / 5)  # half of 2, all of 1
    assert error(s)[0] == pytest.approx(1 - 2**2 / (12 * 7))
    assert gradient(s)[0] == pytest.approx(3 / 6)


@pytest.mark.parametrize("scale", [1e-6, 3.0])
def test_agreement_does_not_depend_on_the_scale_of_the_credit(scale: float) -> None:
    rng = np.random.default_rng(0)
    x, y, task = rng.standard_normal(50), rng.standard_normal(50), rng.integers(0, 3, 50)
    for statistic in (correlation, sign_errors, error):
        first, scaled = (statistic(sums(z, y, task, 3).sum(0)[None]) for z in (x, scale * x))
        assert first == pytest.approx(scaled)


def test_no_credit_is_undefined_where_it_cannot_be_judged() -> None:
    s = np.hstack([sums(np.zeros(3), np.ones(3), np.zeros(3, dtype=np.int64), 1), [[0.0, 1.0, 0.0]]])
    assert np.isnan(correlation(s)[0])
    assert np.isnan(gradient(s)[0])
    assert (error(s)[0], sign_errors(s)[0]) == (1.0, 0.5)


def test_the_expected_gradient_is_not_fooled_by_noise() -> None:
    rng = np.random.default_rng(0)
    exact = np.zeros(200)
    exact[0] = 1.0
    noisy = exact + 0.3 * rng.standard_normal((400, 200))  # the noise of one is four times as long as the signal
    found = expected(noisy, exact)
    assert found.low < 1.0 <= found.high + 1e-9
    assert found.mean > 0.97
    biased = noisy + np.eye(200)[1]
    assert expected(biased, exact).mean == pytest.approx(np.sqrt(0.5), abs=0.05)
    assert np.isnan(expected(noisy[:2], exact).mean)


def test_the_variance_is_that_between_batches_beside_the_mean_squared() -> None:
    rng = np.random.default_rng(0)
    noisy = 2.0 * np.eye(200)[0] + 0.3 * rng.standard_normal((400, 200))  # 200 · 0.09 beside 4
    found = variance(noisy)
    assert found.low < 200 * 0.09 / 4 < found.high
    assert found.high / found.low < 1.2
    assert variance(5.0 * noisy).mean == pytest.approx(found.mean)
    assert np.isnan(variance(noisy - noisy.mean(0)).mean)  # nothing is left of the mean
    assert np.isnan(variance(noisy[:2]).mean)


def test_more_rollouts_have_less_variance_and_exact_values_the_least() -> None:
    estimators = [Estimator(name, methods.get(name)) for name in ("grpo", "gigpo")] + references()[:1]
    few, many = (
        {
            s.name: s.measures["variance"].mean
            for s in compare_estimators(estimators, Lookup(level=2), strength=1.5, rollouts=n)
        }
        for n in (4, 16)
    )
    assert all(many[name] < few[name] / 2 for name in few)
    assert min(many, key=many.__getitem__) == "gae, exact values, lam 0"


def test_a_draw_in_which_a_statistic_is_undefined_does_not_spoil_its_interval() -> None:
    columns = np.array([[[1.0, 2.0], [0.0, 0.0]], [[1.0, 1.0], [0.0, 0.0]]])  # the second task never says anything
    found = estimate(columns, lambda s: np.divide(s[:, 0], s[:, 1], out=np.full(len(s), np.nan), where=s[:, 1] > 0))
    assert found.mean == pytest.approx(2 / 3)
    assert found.low < found.mean < found.high


OPTIONS = ["--level", "1", "--rollouts", "2,4", "--tasks", "2", "--seeds", "3"]


def test_the_command_prints_tables_and_writes_a_page_and_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, svg = tmp_path / "sub" / "credit.html", tmp_path / "figures"
    given = [*OPTIONS, "--strength", "1.5", "--out", str(out), "--svg", str(svg)]
    assert main(["bench", "credit", "grpo", "gigpo", *given]) == 0
    printed = capsys.readouterr().out
    for world in ("keydoor", "lookup"):
        assert f"{world}, level 1, strength 1.5" in printed
        figure = (svg / f"credit-{world}.svg").read_text()
        assert ElementTree.fromstring(figure).tag.endswith("svg")
        assert figure.count("<svg") == 1 + 4  # a picture of four charts
        assert all(name in figure for name in ("grpo", "gigpo", "correlation", "sign errors", "variance"))
        assert len(figure) < 60_000
    assert "gigpo" in printed
    page = out.read_text()
    assert page.count("<svg") == 8
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_the_command_takes_one_world_and_its_dials(capsys: pytest.CaptureFixture[str]) -> None:
    dials = ["--world", "lookup", "--set", "world.miss=1", "--set", "world.judge=true"]
    assert main(["bench", "credit", "grpo", *OPTIONS, *dials]) == 0
    printed = capsys.readouterr().out
    assert "keydoor" not in printed
    assert printed.count("lookup, level 1") == 6  # three policies, two numbers of rollouts


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["igpo"], "AnswerGain() needs"),
        (["--rollouts", "0"], "whole numbers from 1 on"),
        (["--strength", "much"], "must be numbers"),
        (["--level", "9"], "keydoor has no level 9"),
        (["--world", "lookup", "--level", "5"], "lookup has no level 5: its levels are 1, 2, 3, 4"),
        (["--world", "lokup"], "no world 'lokup'. Did you mean 'lookup'"),
        (["--world", "keydoor,"], "no world ''"),
        (["--world", "sums"], "exact values of the world 'sums' are not known: choose keydoor or lookup"),
        (["--world", "lookup", "--set", "world.slip=0.1"], "'lookup' has no setting 'slip'"),
        (["himac"], "several phases"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "credit", *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_method_in_phases_is_refused() -> None:
    with pytest.raises(PodiumError, match="several phases"):
        credit(methods.get("himac"), walked(KNOWN, 2, seed=0).batch)
