"""Topologies of tournaments: how many comparisons they take, and how players stand after them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.strategies.judged.tournament import (
    TOPOLOGIES,
    Standing,
    anchor,
    bracket,
    double_elimination,
    play,
    round_robin,
    seeded_elimination,
    swiss,
)

COMPARISONS: dict[str, Callable[[int], int]] = {
    "anchor": lambda n: n - 1,
    "round_robin": lambda n: n * (n - 1) // 2,
    "seeded": lambda n: 2 * n - 2,
    "swiss": lambda n: min(math.ceil(math.log2(n)), n - 1) * (n // 2),
    "double_elimination": lambda n: 2 * n - 2,
}
qualities = st.lists(st.integers(0, 1000), min_size=2, max_size=17, unique=True)


def counted(name: str, n: int, duel: Callable[[int, int], tuple[float, float]], seed: int = 0) -> tuple[Standing, int]:
    calls = []

    def judge(i: int, j: int) -> tuple[float, float]:
        assert i != j
        calls.append((i, j))
        return duel(i, j)

    return play(TOPOLOGIES[name](n, seed), judge), len(calls)


@given(qualities, st.sampled_from(sorted(TOPOLOGIES)), st.integers(0, 9))
@settings(max_examples=150, deadline=None)
def test_the_best_wins_and_the_number_of_comparisons_is_as_stated(quality: list[int], name: str, seed: int) -> None:
    standing, calls = counted(name, len(quality), lambda i, j: (quality[i], quality[j]), seed)
    assert calls == COMPARISONS[name](len(quality))
    best = quality.index(max(quality))
    assert standing.rank[best] == 1
    assert standing.reward[best] == max(standing.reward)
    assert all(0 <= reward <= 1 for reward in standing.reward)


@given(st.integers(1, 12), st.integers(0, 5), st.sampled_from(sorted(TOPOLOGIES)))
@settings(max_examples=100, deadline=None)
def test_any_judge_gives_ranks_that_agree_with_the_rewards(n: int, seed: int, name: str) -> None:
    chance = random.Random(seed)
    standing, _ = counted(name, n, lambda i, j: (chance.choice((0.2, 0.5)), chance.choice((0.2, 0.5))), seed)
    order = sorted(range(n), key=lambda i: standing.rank[i])
    assert [standing.reward[i] for i in order] == sorted(standing.reward, reverse=True)
    if name in ("seeded", "double_elimination"):
        assert sorted(standing.rank) == list(range(1, n + 1))  # no ties
    else:  # the best rank that each could have
        assert all(rank == 1 + sum(other < rank for other in standing.rank) for rank in standing.rank)


@given(qualities, st.sampled_from(("anchor", "round_robin")))
@settings(max_examples=60, deadline=None)
def test_a_consistent_judge_gives_the_true_order(quality: list[int], name: str) -> None:
    standing, _ = counted(name, len(quality), lambda i, j: (quality[i], quality[j]))
    assert standing.rank == tuple(1 + sum(other > q for other in quality) for q in quality)


@given(st.sampled_from((2, 4, 8, 16)), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_a_seeded_elimination_of_a_power_of_two_is_the_round_robin(n: int, chance: random.Random) -> None:
    quality = chance.sample(range(100), n)
    seeded, _ = counted("seeded", n, lambda i, j: (quality[i], quality[j]))
    assert seeded == counted("round_robin", n, lambda i, j: (quality[i], quality[j]))[0]


@given(qualities, st.sampled_from(sorted(TOPOLOGIES)), st.integers(-5, 5))
@settings(max_examples=60, deadline=None)
def test_a_constant_added_to_all_scores_changes_nothing(quality: list[int], name: str, constant: int) -> None:
    plain, _ = counted(name, len(quality), lambda i, j: (quality[i], quality[j]))
    assert plain == counted(name, len(quality), lambda i, j: (quality[i] + constant, quality[j] + constant))[0]


def test_the_worked_example_gives_one_order_in_three_topologies() -> None:
    quality = [6, 9, 3, 7]
    for topology in (anchor, round_robin, seeded_elimination):
        standing = play(topology(4), lambda i, j: (quality[i], quality[j]))
        assert standing.rank == (3, 1, 4, 2)
        assert standing.reward == pytest.approx((1 / 3, 1, 0, 2 / 3))


def test_equal_scores_tie_where_a_topology_knows_ties() -> None:
    for topology in (anchor, round_robin):
        assert play(topology(4), lambda i, j: (5, 5)) == Standing((1, 1, 1, 1), (0, 0, 0, 0))
    assert play(swiss(4), lambda i, j: (5, 5)) == Standing((1, 1, 1, 1), (0.5, 0.5, 0.5, 0.5))
    # The first one wins ties: 0 beats 3, 1 beats 2, then 0 beats 1; losers of a round stay in the order they lost.
    assert play(seeded_elimination(4), lambda i, j: (5, 5)).rank == (1, 2, 4, 3)


def test_the_anchors_score_is_the_mean_of_its_scores() -> None:
    scores = {(1, 0): (4.0, 9.0), (2, 0): (6.0, 1.0)}
    assert play(anchor(3), lambda i, j: scores[i, j]).rank == (2, 3, 1)  # 5 against 4 and 6


def test_a_bracket_lets_the_best_seeds_meet_last_and_leaves_out_whom_there_is_not() -> None:
    assert bracket(8) == [0, 7, 3, 4, 1, 6, 2, 5]
    assert bracket(5) == [0, 3, 4, 1, 2]
    assert bracket(1) == [0]


def test_an_odd_one_out_moves_to_the_front_of_the_next_round() -> None:
    rounds = []

    def judge(i: int, j: int) -> tuple[float, float]:
        rounds.append((i, j))
        return 10.0 - i, 10.0 - j

    play(seeded_elimination(5), judge)
    # The seeds stand as 0 3 4 1 2. First 2 is left over, and meets the winner of the first pair; then 1 is.
    assert rounds[4:] == [(0, 3), (4, 1), (2, 0), (1, 0)]


def test_swiss_books_points_to_the_players_who_earned_them() -> None:
    """The released code reorders its list of players and then looks them up by number, so that points go astray."""
    quality = [3, 1, 4, 0, 5, 9, 2, 6]
    for seed in range(20):
        standing = play(swiss(8, seed), lambda i, j: (quality[i], quality[j]))
        assert standing.rank[5] == 1
        assert standing.rank[3] == max(standing.rank)


def test_swiss_players_meet_a_new_one_while_there_is_one() -> None:
    met: set[frozenset[int]] = set()

    def judge(i: int, j: int) -> tuple[float, float]:
        assert frozenset((i, j)) not in met
        met.add(frozenset((i, j)))
        return float(i), float(j)

    play(swiss(8, seed=3), judge)
    assert len(met) == 12


def test_who_loses_once_can_still_come_second_in_a_double_elimination() -> None:
    quality = list(range(8))
    for seed in range(10):
        assert play(double_elimination(8, seed), lambda i, j: (quality[i], quality[j])).rank[6:] == (2, 1)
