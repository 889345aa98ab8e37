"""Random streams."""

from __future__ import annotations

import numpy as np
import torch

from podium.core import streams


def test_a_number_depends_on_the_name_and_the_position_alone() -> None:
    keys = [streams.key(3, (1, 2, i)) for i in range(4)]
    whole = streams.uniforms(keys, [0] * 4, 50)
    assert np.array_equal(streams.uniforms(keys[2:3], [10], 5)[0], whole[2, 10:15])
    assert np.array_equal(streams.uniforms(keys[::-1], [0] * 4, 50), whole[::-1])


def test_every_part_of_a_name_matters() -> None:
    names = [(0,), (1,), (0, 0), (0, 1), (1, 0), (-1,), (2**40,), ()]
    assert len({streams.key(seed, name) for seed in (0, 1) for name in names}) == 2 * len(names)


def test_streams_are_uniform_and_independent() -> None:
    u = streams.uniforms([streams.key(0, (g, i)) for g in range(100) for i in range(20)], [0] * 2000, 50)
    assert u.min() > 0.0
    assert u.max() < 1.0
    counts = np.histogram(u, 20, (0, 1))[0]
    expected = u.size / 20
    assert ((counts - expected) ** 2 / expected).sum() < 45  # chi-square with 19 degrees: p < 0.001 beyond
    for a, b in ((u[:, :-1], u[:, 1:]), (u[:-1], u[1:])):  # along a stream, and between neighbours
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.015


def test_a_device_computes_the_same_numbers() -> None:
    keys, starts = [streams.key(3, (1, i)) for i in range(40)], list(range(40))
    given = torch.from_numpy(np.asarray(keys, dtype=np.uint64).view(np.int64)), torch.tensor(starts)
    assert np.array_equal(streams.uniforms_on(*given, 70).numpy(), streams.uniforms(keys, starts, 70))
