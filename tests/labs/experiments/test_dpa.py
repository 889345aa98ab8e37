"""The trial of directions: what is made of the rollouts."""

from __future__ import annotations

import numpy as np
import pytest

from podium.labs.experiments.dpa import _front, _read, hypervolume


def test_the_hypervolume_has_two_sides() -> None:
    """(100, 0) and (50, 40): 0.2 of the square lies below them; turned over, (100, 100) and (50, 60): all of it."""
    assert hypervolume(np.array([[100.0, 0.0], [50.0, 40.0]])) == pytest.approx(0.6)
    assert hypervolume(np.array([[0.0, 50.0]])) == 0.0
    assert hypervolume(np.array([[120.0, 50.0]])) == pytest.approx(0.5)


def test_scores_are_averaged_by_angle() -> None:
    angle = np.array([-44.0, -40.0, 0.0, 40.0, 45.0])
    scores = np.array([[10.0, 1.0], [20.0, 3.0], [30.0, 5.0], [40.0, 8.0], [50.0, 10.0]])
    assert _front(angle, scores).tolist() == [[15.0, 2.0], [30.0, 5.0], [45.0, 9.0]]
    assert _read(angle, scores)["steering"] == pytest.approx(1.0)
    assert _read(angle, -scores)["steering"] == pytest.approx(-1.0)
