"""The policy's learning rate where neither the run nor an exact protocol names one: by size of model and updates.

Published rates are of models of billions of parameters. A model of a few million learns at a larger one, which must
fall as the number of steps per batch grows. The rows come from

- runs of graph-grpo and of flow-grpo at 2e-4 to 5e-3, for podium/chooser (27,000 parameters) and podium/flow (102,000),
- `python benchmarks/learning_rates.py`, for podium/tiny (docs/benchmarks.md),
- the runs of SmolLM2-135M in docs/guide/real-model.md,
- the most frequent rate of the published runs in the catalogue.
"""

from __future__ import annotations

import math

__all__ = ["learning_rate"]

# By the largest number of parameters: the learning rate for at most so many updates per batch.
TABLE: tuple[tuple[float, tuple[tuple[float, float], ...]], ...] = (
    (5e4, ((8, 1e-3), (math.inf, 5e-4))),
    (2e5, ((math.inf, 5e-3),)),
    (2e7, ((1, 2e-4), (8, 1e-4), (math.inf, 5e-5))),
    (4e8, ((1, 2e-5), (math.inf, 1e-5))),
    (math.inf, ((math.inf, 1e-6),)),
)


def learning_rate(parameters: int, updates: int) -> float:
    """The rate for a policy of so many parameters that takes so many optimiser steps per batch."""
    row = next(rates for most, rates in TABLE if parameters <= most)
    return next(rate for most, rate in row if updates <= most)
