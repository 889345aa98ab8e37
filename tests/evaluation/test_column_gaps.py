"""Gaps of success by a column, and what success tells about it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from podium.cli import main
from podium.core.errors import PodiumError
from podium.evaluation.column_gaps import cells_of, column_gaps, dependence


def rollout(correct: bool, length: int = 3, answer: str = "x", **columns: Any) -> Any:
    turns = [SimpleNamespace(ids=[0] * length)]
    return SimpleNamespace(turns=turns, columns={"correct": correct, "answer": answer, "domain": "all", **columns})


def test_success_and_the_largest_gap_by_hand() -> None:
    groups = [
        [rollout(True, tongue="a"), rollout(False, tongue="b", answer=" ")],
        [rollout(True, tongue="a"), rollout(True, tongue="b")],
    ]
    found = column_gaps(groups, "tongue")
    assert {name: rate.mean for name, rate in found.rates.items()} == {"a": 1.0, "b": 0.5}
    assert found.gap.mean == 0.5
    assert found.unanswered == {"a": 0.0, "b": 0.5}
    assert found.rollouts == {"a": 2, "b": 2}


def test_a_value_that_few_tasks_have_is_undefined_elsewhere_not_wrong() -> None:
    groups = [[rollout(True, tongue="a")]] * 9 + [[rollout(True, tongue="b")]]
    found = column_gaps(groups, "tongue")
    assert found.rates["b"].mean == 1.0
    assert (found.gap.mean, found.gap.low, found.gap.high) == (0.0, 0.0, 0.0)


def test_numbers_of_many_values_are_divided_into_quarters_in_order() -> None:
    groups = [[rollout(n % 2 == 0, length=n) for n in range(1, 13)]]
    assert [cells_of(groups, "length")[0].count(name) for name in ("≤ 3.75", "≤ 6.5", "≤ 9.25", "> 9.25")] == [3] * 4
    assert list(column_gaps(groups, "length").rates) == ["≤ 3.75", "≤ 6.5", "≤ 9.25", "> 9.25"]


def test_dependence_adds_up_and_knows_what_a_domain_already_tells() -> None:
    draw = np.random.default_rng(0)
    groups = []
    for _ in range(400):
        domain = int(draw.integers(2))
        tongue = int(draw.random() < (0.9 if domain else 0.1))
        right = bool(draw.random() < (0.9 if domain else 0.3))  # by the domain, not by the tongue
        groups.append([rollout(right, tongue=tongue, domain=str(domain))])
    found = dependence(groups, "tongue")
    assert found.overall == pytest.approx(found.unique + found.redundant, abs=1e-8)
    assert found.within == pytest.approx(found.unique + found.masked, abs=1e-8)
    assert found.overall > 0.1
    assert found.redundant > 0.95 * found.overall
    assert found.within < 4 * found.chance_within + 0.01
    assert found.bound is not None
    rates = column_gaps(groups, "tongue").rates
    assert abs(rates["1"].mean - rates["0"].mean) <= found.bound


def test_an_unknown_column_is_named_with_those_there_are() -> None:
    with pytest.raises(PodiumError, match=r"no column 'lenght'.*'length'"):
        column_gaps([[rollout(True)]], "lenght")


def test_eval_prints_both(capsys: pytest.CaptureFixture[str]) -> None:
    counts = ["--tasks", "12", "--samples", "2", "--world", "rules", "--level", "1"]
    assert main(["eval", "podium/tiny", "--gaps", "domain", "--dependence", "length", *counts]) == 0
    out = capsys.readouterr().out
    assert "Largest gap:" in out
    assert "within domains" in out
