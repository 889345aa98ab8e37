"""Best-of-N against the optimal tilt, exactly, for sequences of independent symbols.

Rewards add up over symbols, so a sequence is known by how often each symbol occurs: the counts are enumerated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from itertools import combinations

import numpy as np

from podium.evaluation.frontier import best_of_law, kl_between, tilt_within
from podium.evaluation.resample import Array
from podium.labs.charts import traced
from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial

__all__ = ["STUDY", "best_of_sequences", "counted_sequences"]

SYMBOLS, RATE = 3, 0.2  # Δ, nats per symbol
LENGTHS = (1, 2, 4, 8, 16, 32, 64)
MISSED = Quantity("missed", "reward per symbol below the tilt")
KL_GAP = Quantity("kl_gap", "Δ − KL per symbol")
APART = Quantity("apart", "KL to the tilt per symbol", (0.0, math.inf))


def counted_sequences(p: Array, reward: Array, length: int) -> tuple[Array, Array]:
    """Probabilities and rewards of all multisets of `length` independent symbols."""
    bars = np.array(list(combinations(range(length + len(p) - 1), len(p) - 1)))
    edges = np.concatenate([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), length + len(p) - 1)], axis=1)
    counts = np.diff(edges, axis=1) - 1
    factorials = np.array([math.lgamma(n + 1) for n in range(length + 1)])  # their logarithms
    log_ways = factorials[length] - factorials[counts].sum(1)
    return np.exp(log_ways + counts @ np.log(p)), counts @ reward


def best_of_sequences(p: Array, reward: Array, length: int, rate: float = RATE) -> dict[str, float]:
    """The best of exp(length · rate) sequences beside the tilt whose KL divergence is length · rate, per symbol."""
    laws, rewards = counted_sequences(p, reward, length)
    best = best_of_law(laws, rewards, math.exp(length * rate))
    symbol = tilt_within(p, reward, rate)[1]  # the tilt of a sequence tilts its symbols
    tilted, _ = counted_sequences(symbol, reward, length)
    return {
        "reward": float(best @ rewards) / length,
        "target": float(symbol @ reward),
        "kl": kl_between(best, laws) / length,
        "apart": kl_between(best, tilted) / length,
    }


def _arm(length: int, seed: int, size: StudySize) -> Mapping[str, float | Array]:
    """Symbols and rewards at random; the best of exp(m · 0.2) sequences of m symbols."""
    rng = np.random.default_rng(seed)
    p, reward = rng.dirichlet(np.full(SYMBOLS, 3.0)), rng.uniform(0, 2, SYMBOLS)
    found = best_of_sequences(p, reward, length)
    values: dict[str, float | Array] = {
        "missed": found["target"] - found["reward"],
        "kl_gap": RATE - found["kl"],
        "apart": found["apart"],
    }
    if length == LENGTHS[-1]:
        shorter = [best_of_sequences(p, reward, m) for m in LENGTHS]
        curve = [x["target"] - x["reward"] for x in shorter]
        values |= {"length": np.array(LENGTHS, dtype=float), "curve": np.array(curve)}
    return values


STUDY = Trial(
    "alignment-asymptotics",
    "Does the best of exp(mΔ) sequences of m symbols come to the optimal policy of KL divergence mΔ?",
    arms={f"m = {length}": partial(_arm, length) for length in (2, 8, 32, 64)},
    claims=(
        Claim("the reward per symbol comes nearer to the optimum as m grows", MISSED, "m = 8", "m = 64"),
        Claim("the KL divergence per symbol comes nearer to Δ", KL_GAP, "m = 8", "m = 64"),
        Claim("both policies come nearer to each other in KL divergence per symbol", APART, "m = 8", "m = 64"),
    ),
    readings=(MISSED, KL_GAP, APART),
    charts=(
        traced("curve", over="length", title="reward per symbol below the tilt", x_label="m, symbols", log_x=True),
    ),
    size=StudySize(seeds=64),
    quick=StudySize(seeds=16),
)
