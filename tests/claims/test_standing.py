"""Claims as frozen values, and where they stand by what was measured."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from podium.claims import CLAIMS
from podium.claims.claim import Cell, MethodArm, MethodClaim, fingerprint, frozen_problems
from podium.claims.frozen import check_frozen, read_frozen
from podium.claims.measuring import Measurement, apartness, measured_run
from podium.claims.metrics import at_equal, metric_value, reached
from podium.claims.report import claims_page, claims_table
from podium.claims.results import Results, RunKey
from podium.claims.running import ClaimsRun, run_claims
from podium.claims.standing import RATES, ClaimStanding, Due, stand
from podium.cli import main
from podium.core.errors import PodiumError

CELL = Cell("tiny", "echo", 1, iterations=2, tasks=2, pool=16)
ARM, BASELINE, CONTROL = (MethodArm("grpo", {"n": 2, "kl": kl, "mini_batches": 1}) for kl in (0.0, 1.0, 0.1))
CLAIM = MethodClaim("grpo", 1, "it learns", CELL, ARM, BASELINE, "pass@1", "more", 0.03, control=CONTROL)


def record(value: float, **final: float) -> dict[str, Any]:
    curve = {"pass@1": [0.0, value], "entropy": [1.0, 0.5], "tokens": [10, 10], "updates": [1, 1]}
    cost = {"sampled": 20.0, "encoded": 0.0, "updates": 2.0, "seconds": 1.0}
    return {"final": {"pass@1": value, **final}, "curve": curve, "cost": cost}


def test_all_claims_are_frozen_and_buildable() -> None:
    assert frozen_problems(list(CLAIMS.values()), read_frozen()) == []
    for claim in CLAIMS.values():
        built = [arm.build() for arm in (*claim.arms, claim.control) if arm.trains]
        assert all(one != other for one, other in pairwise(built))


def test_a_changed_claim_needs_a_new_number_and_a_reason() -> None:
    first = {"number": 1, "hash": fingerprint(CLAIM), "because": ""}
    assert frozen_problems([CLAIM], {"grpo": [first]}) == []
    changed = CLAIM.replace(smallest=0.02)
    assert "has changed" in frozen_problems([changed], {"grpo": [first]})[0]
    with pytest.raises(PodiumError, match="say why"):
        changed.replace(number=2)
    second = changed.replace(number=2, because="0.03 was a slip")
    assert "not frozen" in frozen_problems([second], {"grpo": [first]})[0]
    entry = {"number": 2, "hash": fingerprint(second), "because": second.because}
    assert frozen_problems([second], {"grpo": [first, entry]}) == []
    assert "gone" in frozen_problems([], {"grpo": [first]})[0]
    with pytest.raises(PodiumError, match="freeze_claims"):
        check_frozen([changed], {"grpo": [first]})


@pytest.mark.parametrize("other", ["cell", "arm", "baseline", "metric", "says", "control"])
def test_every_part_of_a_claim_is_in_its_hash(other: str) -> None:
    change = {
        "cell": CELL.replace(iterations=3),
        "arm": CONTROL,
        "baseline": CONTROL,
        "metric": "auc",
        "says": "it learns well",
        "control": ARM,
    }[other]
    assert fingerprint(CLAIM.replace(**{other: change})) != fingerprint(CLAIM)


def fill(results: Results, due: tuple[Due, ...], value: dict[MethodArm, float], seed_effect: float = 0.02) -> None:
    for item in due:
        if item.baseline is not None:
            results.add(item.cell, item.arm, item.key, {"distance": 0.5, "iterations": 1, "acted": {}})
            continue
        noise = np.random.default_rng([item.key.seed, len(item.arm.text())]).normal(0, 0.001)
        best = 0.01 if item.key.lr == RATES[1] else 0.0
        rate = value.get(item.arm, 0.1) + seed_effect * (item.key.seed % 3) + noise + best
        results.add(item.cell, item.arm, item.key, record(rate, rate_noise=1e-5))


def advanced(results: Results, value: dict[MethodArm, float]) -> list[ClaimStanding]:
    """All states on the way."""
    passed = [stand(CLAIM, results)]
    while passed[-1].due:
        fill(results, passed[-1].due, value)
        passed.append(stand(CLAIM, results))
    return passed


def test_a_claim_passes_its_gates_is_tuned_and_tested_until_it_is_settled(tmp_path: Path) -> None:
    passed = advanced(Results(tmp_path), {ARM: 0.5, BASELINE: 0.3, CONTROL: 0.4})
    assert [s.state for s in passed] == ["not run", "tuning", "tuning", "testing", "measured"]
    last = passed[-1]
    assert last.rates == (RATES[1], RATES[1])
    assert last.sensitivity == pytest.approx(0.01)
    assert last.noise is not None
    assert last.noise > 0
    assert last.found is not None
    assert last.found.pairs == 8  # a clear effect ends at the first look
    assert last.found.mean == pytest.approx(0.2, abs=0.005)
    assert stand(CLAIM, Results(tmp_path)) == last  # from the files alone
    (row,) = claims_table([last])
    assert row[4] == "shown*"
    assert "sampled × 1.00" in row[11]
    page = claims_page([last], [("grpo", 1, "abc", "a slip")])
    assert "+0.2" in page
    assert "number 1 (abc) was given up: a slip" in page


def test_what_is_refuted_takes_the_same_looks_and_what_is_undecided_all_of_them(tmp_path: Path) -> None:
    refuted = advanced(Results(tmp_path / "a"), {ARM: 0.3, BASELINE: 0.3, CONTROL: 0.4})[-1]
    assert claims_table([refuted])[0][4] == "refuted*"
    results = Results(tmp_path / "b")
    while (now := stand(CLAIM, results)).due:
        fill(results, now.due, {ARM: 0.3, BASELINE: 0.3, CONTROL: 0.4})
        for item in now.due:
            if item.key.kind == "test" and item.arm == ARM:
                noise = 0.1 * (-1) ** item.key.seed
                results.add(item.cell, item.arm, item.key, record(0.3 + noise + 0.02 * (item.key.seed % 3)))
    assert now.found is not None
    assert now.found.pairs == 16
    assert claims_table([now])[0][4] == "not shown"
    assert "detectable" in claims_table([now])[0][5]


def test_gates_end_a_claim_before_it_is_tested(tmp_path: Path) -> None:
    results = Results(tmp_path / "a")
    (gate,) = stand(CLAIM, results).due
    results.add(gate.cell, gate.arm, gate.key, {"distance": 0.004, "iterations": 5, "acted": {}})
    inert = stand(CLAIM, results)
    assert (inert.state, inert.due) == ("inert", ())
    assert "0.40% of the update" in inert.why
    last = advanced(Results(tmp_path / "b"), {ARM: 0.5, BASELINE: 0.3, CONTROL: 0.31})[-1]
    assert last.state == "insensitive"
    assert "positive control" in last.why


def test_a_torn_line_is_run_again_and_a_strange_one_is_named(tmp_path: Path) -> None:
    results, key = Results(tmp_path), RunKey("test", 3, 1e-4)
    results.add(CELL, ARM, key, record(0.5))
    file = results.file(CELL, ARM)
    with file.open("a") as stream:
        stream.write('{"kind": "test", "se')
    assert list(Results(tmp_path).runs(CELL, ARM)) == [key]
    other = RunKey("test", 4, 1e-4)
    Results(tmp_path).add(CELL, ARM, other, record(0.6))
    assert list(Results(tmp_path).runs(CELL, ARM)) == [key, other]
    with file.open("a") as stream:
        stream.write("{}\n")
    with pytest.raises(PodiumError, match="line 5, is not a result"):
        Results(tmp_path).runs(CELL, ARM)


def test_metrics_by_hand() -> None:
    one = {"curve": {"pass@1": [0.0, 0.5, 1.0, 1.0], "entropy": [4.0, 3.0, 2.0, 1.0]}}
    two = {"curve": {"pass@1": [0.0, 0.5, 0.5, 0.5], "entropy": [4.0, 2.0, 1.0, 0.5]}}
    # Smoothed: pass@1 0, .25, .5, .625 and 0, .25, .333, .375; entropies 4, 3.5, 3, 2.5 and 4, 3, 2.33, 1.875.
    assert at_equal(one, two, "pass@1", "entropy") == pytest.approx(3.0)
    assert at_equal(two, one, "pass@1", "entropy") == pytest.approx(1.875)
    assert reached([0.0, 0.5, 1.0, 1.0, 1.0], [1, 2, 3, 4, 5]) == 4
    assert reached([0.0, 0.1], [7, 14]) == 14
    assert metric_value("best", one, one) == pytest.approx(0.625)
    assert metric_value("entropy", record(0.5, entropy=np.e), record(0.5)) == pytest.approx(1.0)
    assert metric_value("entropy", record(0.5, entropy=0.0), record(0.5)) == pytest.approx(np.log(1e-6))
    with pytest.raises(PodiumError, match="no 'pass@64'"):
        metric_value("pass@64", record(0.5), record(0.5))


@pytest.mark.long
def test_runs_are_measured_apart_and_repeatable(tmp_path: Path) -> None:
    measure = Measurement(tasks=2, samples=8)
    first, again, other = (measured_run(CELL, ARM, seed, 1e-3, measure) for seed in (0, 0, 1))
    assert first["final"] == again["final"]
    assert first["curve"] == again["curve"] != other["curve"]
    assert len(first["curve"]["pass@1"]) == CELL.iterations
    assert first["cost"]["sampled"] == sum(first["curve"]["tokens"]) > 0
    start = measured_run(CELL, MethodArm("base"), 0, None, measure)
    assert start["curve"]["tokens"] == []
    assert apartness(CELL, ARM, BASELINE, 0, 1e-3, 2)["distance"] > 0
    assert apartness(CELL, ARM, ARM, 0, 1e-3, 1)["distance"] == 0
    (standing,) = run_claims([CLAIM], ClaimsRun(tmp_path, active=True))
    assert standing.state in ("inert", "tuning")


def test_what_is_typed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["claims", "list"]) == 0
    assert "dr-grpo" in capsys.readouterr().out
    assert main(["claims", "page", "--out", str(tmp_path / "claims.md"), "--results", str(tmp_path)]) == 0
    assert "| opo |" in (tmp_path / "claims.md").read_text("utf-8")
    assert main(["claims", "table", "--results", str(tmp_path)]) == 0
    assert main(["claims", "run", "nothing"]) == 2
    assert main(["claims", "run"]) == 2
    assert "--all" in capsys.readouterr().err
