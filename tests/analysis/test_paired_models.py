"""Two models on the same tasks, and intervals by resampling."""

from __future__ import annotations

import numpy as np
import pytest

from podium.analysis.paired_models import PairedComparison, Tally, crossings
from podium.core.errors import PodiumError
from podium.evaluation.passk import pass_at_k, pass_curve
from podium.evaluation.resample import estimate


def tallied(*solutions: dict[str, int], samples: int = 8) -> Tally:
    count = len(solutions)
    return Tally(
        tasks=[f"task {i}" for i in range(count)],
        samples=samples,
        correct=[sum(s.values()) for s in solutions],
        solutions=list(solutions),
        token_entropy=[0.5] * count,
        answer_entropy=[1.0] * count,
        length=[3.0] * count,
    )


def test_the_curve_is_pass_at_k_for_every_k() -> None:
    for correct in (0, 1, 5, 8):
        assert pass_curve(8, correct) == pytest.approx([pass_at_k(8, correct, k) for k in range(1, 9)])


def test_a_task_is_kept_won_lost_or_in_neither_support() -> None:
    base = tallied({"a": 5}, {}, {"b": 3}, {}, {"c": 1})
    trained = tallied({"a": 8}, {"d": 2}, {}, {}, {"c": 4})
    found = PairedComparison(base, trained)
    support = found.support()
    assert (support.preserved, support.expanded, support.shrunk, support.out_of_support) == (2, 1, 1, 1)
    assert [row["change"] for row in found.tasks()] == [
        "preserved",
        "expanded",
        "shrunk",
        "out of support",
        "preserved",
    ]
    assert found.shares()["retention"].mean == pytest.approx(2 / 3)
    assert found.shares()["dynamic_score"].mean == pytest.approx(4 / 9)


def test_a_task_can_be_kept_while_one_of_its_solutions_is_lost() -> None:
    found = PairedComparison(tallied({"a": 3, "b": 1}), tallied({"a": 6, "c": 1}))
    assert found.support().shrunk == 0
    solutions = found.support(solutions=True)
    assert (solutions.preserved, solutions.expanded, solutions.shrunk) == (1, 1, 1)


def test_identical_models_differ_in_nothing() -> None:
    model = tallied({"a": 3}, {}, {"b": 8})
    found = PairedComparison(model, model, ks=(1, 8))
    assert all(m[2].mean == m[2].low == m[2].high == 0 for m in found.measures().values())
    assert found.crossings == []
    assert found.shares()["retention"].mean == 1.0


def test_a_sharpened_model_is_ahead_at_first_and_behind_later() -> None:
    base, trained = tallied({"a": 2}, {"b": 2}), tallied({"a": 8}, {})
    assert PairedComparison(base, trained).crossings == [(1, "trained"), (3, "base")]
    assert crossings(np.array([0.1, 0.5]), np.array([0.1, 0.5])) == []


def test_only_the_same_tasks_can_be_contrasted() -> None:
    with pytest.raises(PodiumError, match="same tasks"):
        PairedComparison(tallied({"a": 1}), tallied({"a": 1}, {}))
    with pytest.raises(PodiumError, match="pass@16 needs at least 16 samples"):
        tallied({"a": 1}).passed(16)


@pytest.mark.parametrize(("seeds", "tasks"), [(1, 64), (3, 64), (6, 8)])
def test_the_interval_covers_the_truth_about_as_often_as_it_says(seeds: int, tasks: int) -> None:
    rng = np.random.default_rng(0)
    luck = rng.normal(size=(200, seeds, 1)) * (seeds > 1)  # of a seed, in all its tasks
    inside = 0
    for x in luck + rng.normal(size=(200, seeds, tasks)):
        found = estimate(np.stack([x, np.ones_like(x)], axis=-1), draws=200)
        inside += found.low <= 0 <= found.high
    assert inside / 200 > 0.88


def test_resampling_is_the_same_each_time() -> None:
    columns = np.random.default_rng(1).random((2, 5, 2))
    assert estimate(columns) == estimate(columns)


def test_intervals_of_shares_stay_between_0_and_1() -> None:
    few = PairedComparison(tallied({"a": 8}, {}), tallied({}, {"b": 8}), ks=(1, 8))
    for name, (base, trained, _) in few.measures().items():
        for found in (base, trained):
            assert found.low >= 0.0, name
            assert found.high <= (1.0 if name.startswith("pass@") else np.inf)
