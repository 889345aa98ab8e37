"""How well scores agree with what is known of held-out answers: with intervals, over prompts."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from torch import Tensor

from podium.core.keys import number_values
from podium.evaluation.resample import Array, Measure, estimate

__all__ = ["pair_accuracy", "r_squared"]


def pair_accuracy(better: Tensor, worse: Tensor, prompts: Sequence[Hashable]) -> Measure:
    """How often the better answer of a pair has the higher score; ties count half."""
    ahead = ((better > worse).double() + 0.5 * (better == worse).double()).numpy()
    return estimate(_sums(prompts, ahead, np.ones(len(ahead))), bounds=(0.0, 1.0))


def r_squared(predicted: Tensor, truth: Tensor, prompts: Sequence[Hashable]) -> Measure:
    """R² = 1 − Σ (predicted − truth)² / Σ (truth − mean)²: 1 is exact, 0 no better than the mean of the truth."""
    y, error = truth.double().numpy(), (predicted.double() - truth.double()).square().numpy()
    return estimate(_sums(prompts, error, np.ones(len(y)), y, y * y), _r_squared, bounds=(-np.inf, 1.0))


def _r_squared(sums: Array) -> Array:
    error, count, total, squares = sums.T
    spread = squares - total**2 / np.maximum(count, 1)
    return 1 - np.divide(error, spread, out=np.full(len(error), np.nan), where=spread > 1e-12 * np.maximum(squares, 1))


def _sums(prompts: Sequence[Hashable], *columns: Array) -> Array:
    """[1, prompt, column] the sums over each prompt's answers."""
    numbers, names = number_values(prompts)
    sums = np.zeros((len(names), len(columns)))
    np.add.at(sums, np.asarray(numbers), np.stack(columns, -1))
    return sums[None]
