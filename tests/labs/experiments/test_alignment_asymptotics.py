"""Best-of-N of independent symbols, against numbers worked out before."""

from __future__ import annotations

import numpy as np
import pytest

from podium.labs.experiments.alignment_asymptotics import best_of_sequences, counted_sequences

P, R = np.array([0.5, 0.3, 0.2]), np.array([0.0, 1.0, 2.0])


def test_sequences_are_counted_once() -> None:
    p, reward = counted_sequences(P, R, 2)
    assert p.sum() == pytest.approx(1.0)
    assert len(p) == 6
    assert p @ reward == pytest.approx(2 * P @ R)
    assert p[reward == 4.0] == pytest.approx([0.04])


@pytest.mark.parametrize(
    ("length", "reward"), [(1, 0.8097), (2, 0.8759), (4, 0.9491), (8, 1.0250), (16, 1.0926), (32, 1.1406)]
)
def test_the_best_of_many_rises_toward_the_tilt(length: int, reward: float) -> None:
    found = best_of_sequences(P, R, length)
    assert found["reward"] == pytest.approx(reward, abs=5e-5)
    assert found["target"] == pytest.approx(1.2113855, abs=1e-7)


def test_its_divergence_per_symbol_rises_toward_the_rate() -> None:
    assert best_of_sequences(P, R, 1)["kl"] == pytest.approx(0.0105, abs=5e-5)
    assert best_of_sequences(P, R, 32)["kl"] == pytest.approx(0.1678, abs=5e-5)
