"""A budget for genomes of several ancestries: who should be sequenced next, so that scores serve all of them?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podium.labs.charts import traced
from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial
from podium.tables.allocation import fit_power_law, greedy_allocation

__all__ = ["STUDY", "Genomes", "SequencingSize"]

Floats = NDArray[np.float64]
VARIANTS, TESTED = 60, 400
SHARES = np.array([0.75, 0.15, 0.10])  # of the population
COST = np.array([1.0, 1.5, 2.0])
HERITABILITY = np.array([0.6, 0.5, 0.4])
FIRST = 40  # persons of each ancestry at the start
ERROR = Quantity("error", "mean error of the ancestries", (0.0, np.inf))
WORST = Quantity("worst", "error of the worst ancestry", (0.0, np.inf))


class SequencingSize(StudySize):
    """The budget after the first sample, in persons of the cheapest ancestry, and how many purchases it is spent in."""

    budget: int = 1200
    purchases: int = 12


class Genomes:
    """Persons of three ancestries: variants with frequencies and linkage of the ancestry, effects that are partly
    shared, and a trait of a given heritability."""

    def __init__(self, seed: int, budget: int) -> None:
        generator = np.random.default_rng((seed, 0))
        groups = len(SHARES)
        self.frequency = np.clip(generator.beta(1.5, 3.0, (groups, VARIANTS)), 0.03, 0.97)
        shared, own = generator.standard_normal(VARIANTS), generator.standard_normal((groups, VARIANTS))
        self.effect = 0.8 * shared + 0.6 * own
        self.linkage = (0.8, 0.5, 0.3)  # the correlation of neighbouring variants
        self.seed = seed
        pool = int(budget / COST.min()) + FIRST  # as many as the budget could ever buy
        self.pools = [self._persons(g, pool, 1) for g in range(groups)]
        self.tests = [self._persons(g, TESTED, 2) for g in range(groups)]

    def _persons(self, group: int, count: int, stream: int) -> tuple[Floats, Floats]:
        """[person, variant] standardised numbers of copies, and [person] the trait with mean 0 and variance 1."""
        from scipy.stats import norm  # type: ignore[import-untyped]

        generator, rho = np.random.default_rng((self.seed, stream, group)), self.linkage[group]
        copies = np.zeros((count, VARIANTS))
        for _ in range(2):  # a haplotype of each parent: a chain of correlated normals, cut at the frequency
            z = generator.standard_normal((count, VARIANTS))
            for j in range(1, VARIANTS):
                z[:, j] = rho * z[:, j - 1] + np.sqrt(1 - rho**2) * z[:, j]
            copies += z < norm.ppf(self.frequency[group])
        f = self.frequency[group]
        x = (copies - 2 * f) / np.sqrt(2 * f * (1 - f))
        genetic = x @ self.effect[group]
        genetic = genetic / np.sqrt(self._genetic_variance(group))
        h = HERITABILITY[group]
        return x, np.sqrt(h) * genetic + np.sqrt(1 - h) * generator.standard_normal(count)

    def _genetic_variance(self, group: int) -> float:
        """Of the trait's genetic part, from variants taken as linked like the normals behind them."""
        distance = np.abs(np.subtract.outer(np.arange(VARIANTS), np.arange(VARIANTS)))
        return float(self.effect[group] @ self.linkage[group] ** distance @ self.effect[group])

    def fit(self, group: int, rows: NDArray[np.int64], penalty: float = 30.0) -> Floats:
        x, y = self.pools[group][0][rows], self.pools[group][1][rows]
        return np.asarray(np.linalg.solve(x.T @ x + penalty * np.eye(VARIANTS), x.T @ y), dtype=np.float64)

    def tested_error(self, group: int, count: int) -> float:
        """The squared error on new persons of a score that was fitted to the first persons of the pool."""
        x, y = self.tests[group]
        return float(((x @ self.fit(group, np.arange(count)) - y) ** 2).mean())

    def curve(self, group: int, count: int, generator: np.random.Generator) -> tuple[list[int], list[float]]:
        """The learning curve that is known with so many persons: errors on a fifth that is held out of what was bought,
        at four sizes of the rest, over three splits."""
        sizes, errors = [], []
        for _ in range(3):
            order = generator.permutation(count)
            held, rest = order[: max(5, count // 5)], order[max(5, count // 5) :]
            x, y = self.pools[group][0][held], self.pools[group][1][held]
            for share in (0.25, 0.5, 0.75, 1.0):
                rows = rest[: max(2, int(share * len(rest)))]
                sizes.append(len(rows))
                errors.append(float(((x @ self.fit(group, rows) - y) ** 2).mean()))
        return sizes, errors


Split = Callable[[Genomes, NDArray[np.int64], float, np.random.Generator], Floats]  # shares of the money


def _equal(genomes: Genomes, counts: NDArray[np.int64], purchase: float, generator: np.random.Generator) -> Floats:
    """As many persons of each ancestry."""
    return COST / COST.sum()


def _representative(
    genomes: Genomes, counts: NDArray[np.int64], purchase: float, generator: np.random.Generator
) -> Floats:
    """As many persons as in the population."""
    return SHARES * COST / (SHARES * COST).sum()


def _equal_spending(
    genomes: Genomes, counts: NDArray[np.int64], purchase: float, generator: np.random.Generator
) -> Floats:
    """As much money for each ancestry."""
    return np.full(len(COST), 1 / len(COST))


def _adaptive(genomes: Genomes, counts: NDArray[np.int64], purchase: float, generator: np.random.Generator) -> Floats:
    """Step by step for the ancestry whose predicted learning curve falls most per cost; all are predicted again before
    every purchase."""
    curves = [fit_power_law(*genomes.curve(g, int(n), generator)) for g, n in enumerate(counts)]
    found = greedy_allocation(curves, counts, COST, np.ones(len(COST)), budget=purchase, step=5)
    spent = (found.counts - counts) * COST
    return _equal(genomes, counts, purchase, generator) if not spent.any() else spent / spent.sum()


def _arm(split: Split, seed: int, size: SequencingSize) -> Mapping[str, Any]:
    """The budget in equal purchases, each divided by the rule of this arm; scores are ridge fits per ancestry."""
    genomes, generator = Genomes(seed, size.budget), np.random.default_rng((seed, 3))
    counts, money = np.full(len(COST), FIRST), np.zeros(len(COST))
    curve = []
    for _ in range(size.purchases):
        purchase = size.budget / size.purchases
        money = money + split(genomes, counts, purchase, generator) * purchase
        bought = np.floor(money / COST + 1e-9).astype(int)
        counts, money = counts + bought, money - bought * COST
        curve.append([genomes.tested_error(g, int(n)) for g, n in enumerate(counts)])
    errors = np.array(curve)
    return {
        "error": errors[-1].mean(),
        "worst": errors[-1].max(),
        "counts": counts,
        "spent": size.budget * np.arange(1.0, size.purchases + 1) / size.purchases,
        "curve": errors.mean(1),
    }


STUDY = Trial(
    "adaptive-equitable-sampling",
    "Does buying data where the predicted learning curve falls most per cost beat fixed shares?",
    arms={
        "adaptive": partial(_arm, _adaptive),
        "equal numbers": partial(_arm, _equal),
        "representative": partial(_arm, _representative),
        "equal spending": partial(_arm, _equal_spending),
    },
    claims=(
        Claim("its error is below that of equal numbers", ERROR, "equal numbers", "adaptive"),
        Claim("its error is below that of a representative sample", ERROR, "representative", "adaptive"),
        Claim("its error is below that of equal spending", ERROR, "equal spending", "adaptive"),
        Claim("the worst ancestry fares better than in a representative sample", WORST, "representative", "adaptive"),
    ),
    readings=(ERROR, WORST),
    charts=(traced("curve", over="spent", title="mean error of the ancestries", x_label="budget spent"),),
    size=SequencingSize(seeds=24),
    quick=SequencingSize(seeds=6, budget=600, purchases=6),
)
