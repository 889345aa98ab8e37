"""pass@k and its kin."""

from __future__ import annotations

import itertools

import pytest

from podium.evaluation.passk import bootstrap_interval, majority_at_k, pass_at_k


@pytest.mark.parametrize(("n", "correct", "k"), [(5, 2, 1), (5, 2, 3), (6, 1, 6), (6, 0, 3), (4, 4, 2), (7, 3, 5)])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_answer(n: int, correct: int, k: int) -> None:
    right = [True] * correct + [False] * (n - correct)
    subsets = list(itertools.combinations(right, k))
    assert pass_at_k(n, correct, k) == pytest.approx(sum(any(s) for s in subsets) / len(subsets))


def test_pass_at_k_needs_k_samples() -> None:
    with pytest.raises(ValueError, match="at least 8"):
        pass_at_k(4, 1, 8)


def test_majority_counts_the_most_frequent_answer() -> None:
    assert majority_at_k(["1", "2", "2"], [True, False, False], 3) == 0.0
    assert majority_at_k(["1", "2", "1"], [True, False, True], 3) == 1.0


def test_a_tied_vote_counts_its_share() -> None:
    assert majority_at_k(["1", "2"], [True, False], 2) == 0.5


def test_the_interval_holds_the_mean_and_shrinks_with_more_tasks() -> None:
    few, many = [0.0, 1.0] * 10, [0.0, 1.0] * 1000
    low, high = bootstrap_interval(few)
    assert low < 0.5 < high
    narrow = bootstrap_interval(many)
    assert narrow[1] - narrow[0] < (high - low) / 3
