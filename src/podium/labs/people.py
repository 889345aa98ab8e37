"""People whose causes are known: a sensitive attribute, merit, scores, proxies, base rates, clients and drift.

The causal model, in the order in which it is drawn:

    client s      ~ uniform
    attribute z   ~ Bernoulli(share of z = 1 at client s)
    merit m       = shift_z + N(0, 1)
    label y       = 1[m + noise · N(0, 1) > 0], where shift_z gives exactly the base rate of group z
    scores        = cos(angle) · m + sin(angle) · u − bias · z + score_noise · N(0, 1), u ~ N(0, 1) shared by the scores
    proxies       = strength · (2z − 1) + N(0, 1)
    irrelevant    = N(0, 1)

The angle grows by `drift` from the first person to the last, so that scores tell ever less of merit.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podium.core.errors import PodiumError

__all__ = ["People", "CausalModel", "optional_package", "real_table"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
TABLES = ("breast_cancer", "diabetes", "digits", "iris", "wine")


@dataclass(frozen=True)
class People:
    """A sample of persons, row by row, with what a decision maker does not see: merit and the chance of the label."""

    x: Floats  # [person, feature] scores, proxies, irrelevant features, in this order
    label: Ints  # [person]
    group: Ints  # [person] the sensitive attribute
    client: Ints  # [person]
    merit: Floats  # [person]
    chance: Floats  # [person] P(label = 1 | merit)

    def __len__(self) -> int:
        return len(self.label)

    def rows(self, chosen: Any) -> People:
        """Those of a mask, a slice or a list of numbers."""
        return People(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class CausalModel:
    """The causal model from which people are drawn."""

    base_rates: tuple[float, float] = (0.55, 0.35)  # P(label = 1) of the groups 0 and 1
    shares: tuple[float, ...] = (0.5,)  # P(z = 1) at each client
    scores: int = 3  # noisy measurements of merit
    bias: float = 0.0  # by how much the scores of group 1 are too low
    score_noise: float = 0.6
    noise: float = 0.5  # between merit and label
    proxies: int = 2
    strength: float = 1.0  # of the proxies
    irrelevant: int = 2
    drift: float = 0.0  # radians by which the scores turn away from merit over the sample

    def draw(self, people: int, generator: np.random.Generator) -> People:
        """So many persons. The same generator gives the same persons."""
        from scipy.stats import norm  # type: ignore[import-untyped]

        client = generator.integers(len(self.shares), size=people)
        group = (generator.random(people) < np.asarray(self.shares)[client]).astype(np.int64)
        merit = self.shifts()[group] + generator.standard_normal(people)
        label = (merit + self.noise * generator.standard_normal(people) > 0).astype(np.int64)
        angle = self.drift * np.linspace(0.0, 1.0, people)
        told = np.cos(angle) * merit + np.sin(angle) * generator.standard_normal(people) - self.bias * group
        scores = told[:, None] + self.score_noise * generator.standard_normal((people, self.scores))
        proxies = self.strength * (2 * group - 1)[:, None] + generator.standard_normal((people, self.proxies))
        x = np.concatenate([scores, proxies, generator.standard_normal((people, self.irrelevant))], 1)
        return People(x, label, group, client, merit, np.asarray(norm.cdf(merit / self.noise), dtype=float))

    def shifts(self) -> Floats:
        """[group] the mean merit that gives each group its base rate."""
        from scipy.stats import norm

        return np.asarray(norm.ppf(self.base_rates) * np.sqrt(1.0 + self.noise**2), dtype=float)


def optional_package(name: str, purpose: str) -> Any:
    """A module of the extra `tables`, or one sentence that says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = {"sklearn": "scikit-learn"}.get(name.split(".")[0], name.split(".")[0])
        raise PodiumError(f"{purpose} needs {package}: pip install 'podium-rl[tables]'.") from None


def real_table(name: str) -> tuple[Floats, Floats]:
    """[row, feature] standardised features and [row] targets of a table that comes with scikit-learn; nothing is
    downloaded. Columns that never change are left out."""
    if name not in TABLES:
        raise PodiumError(f"scikit-learn's tables here are {', '.join(TABLES)}, not {name!r}.")
    found = getattr(optional_package("sklearn.datasets", f"the table {name}"), f"load_{name}")()
    x, y = np.asarray(found.data, dtype=float), np.asarray(found.target, dtype=float)
    x = x[:, x.std(0) > 0]
    return (x - x.mean(0)) / x.std(0), y
