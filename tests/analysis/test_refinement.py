"""What a refiner gains, against an enumeration of everything that can happen."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from podium.analysis.refinement import RefinerGain, refiner_gain
from podium.core.errors import PodiumError

STEPS = (0.8, 0.6, 0.7)  # the probability that each step of a chain succeeds; the reward is 1 if all do


def chain(accept: Any, cut: Any) -> tuple[RefinerGain, float]:
    """The gain on the table of a chain, and J(refined) − J(actor) by enumerating revisions as well."""
    whole = list(product((True, False), repeat=len(STEPS)))

    def chance(steps: tuple[bool, ...], first: int = 0) -> float:
        return float(np.prod([p if ok else 1 - p for p, ok in zip(STEPS[first:], steps, strict=True)]))

    def value(kept: tuple[bool, ...]) -> float:  # of going on after these steps
        return float(all(kept)) * float(np.prod(STEPS[len(kept) :]))

    values = [[value(y[:k]) for k in range(len(STEPS))] for y in whole]
    rewards = [float(all(y)) for y in whole]
    found = refiner_gain(
        [chance(y) for y in whole], [accept(y) for y in whole], [cut(y) for y in whole], values, rewards
    )
    refined = 0.0
    for y in whole:
        refined += chance(y) * accept(y) * float(all(y))
        for k, drawn in enumerate(cut(y)):
            for rest in product((True, False), repeat=len(STEPS) - k):
                again = float(all((*y[:k], *rest)))
                refined += chance(y) * (1 - accept(y)) * drawn * chance(rest, k) * again
    return found, refined - float(np.prod(STEPS))


def first_error(y: tuple[bool, ...]) -> list[float]:
    at = y.index(False) if False in y else len(y) - 1
    return [float(k == at) for k in range(len(y))]


def anywhere(y: tuple[bool, ...]) -> list[float]:
    return [0.2, 0.5, 0.3]


def restart(y: tuple[bool, ...]) -> list[float]:
    return [1.0, 0.0, 0.0]


def unsure(y: tuple[bool, ...]) -> float:
    return 0.25 + 0.2 * sum(y)


def oracle(y: tuple[bool, ...]) -> float:
    return float(all(y))


@pytest.mark.parametrize("accept", [unsure, oracle, lambda y: 0.3])
@pytest.mark.parametrize("cut", [first_error, anywhere, restart])
def test_the_identity_is_exact(accept: Any, cut: Any) -> None:
    found, gain = chain(accept, cut)
    assert found.gain == pytest.approx(gain, abs=1e-12)
    assert found.precision + found.volume * found.skill == pytest.approx(gain, abs=1e-12)


def test_an_oracle_never_loses_and_the_first_error_is_the_best_cut() -> None:
    gains = [chain(oracle, cut)[0].gain for cut in (first_error, restart, anywhere)]
    assert min(gains) >= 0
    assert gains[0] == max(gains)


def test_a_refiner_that_accepts_all_gains_nothing() -> None:
    found, gain = chain(lambda y: 1.0, anywhere)
    assert found.volume == pytest.approx(0)
    assert found.gain == pytest.approx(0)
    assert gain == pytest.approx(0)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            ([0.5, 0.4], [1, 1], [[1], [1]], [[0], [0]], [1, 0]),
            "The trajectories must have probabilities",
        ),
        (([0.5, 0.5], [1, 2], [[1], [1]], [[0], [0]], [1, 0]), "accepted with a probability in"),
        (([0.5, 0.5], [1, 1], [[1], [0.7]], [[0], [0]], [1, 0]), "The cuts of trajectory 1 must have"),
        (([0.5, 0.5], [1, 1], [[1], [1]], [[0], [0, 1]], [1, 0]), "Trajectory 1 has 1 probabilities of cuts and 2"),
        (([1.0], [1, 1], [[1], [1]], [[0], [0]], [1, 0]), "A refiner's table has 1 probabilities, 2 verdicts"),
        (([1.0], [1], [[1]], [[float("nan")]], [1]), "A refiner's values must be a row of finite numbers"),
    ],
)
def test_tables_that_are_none_are_refused(table: Any, message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        refiner_gain(*table)
