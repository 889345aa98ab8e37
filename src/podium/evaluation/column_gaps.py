"""How success depends on a column of the rollouts: gaps between its values, and information about it in bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium.core.build import Rollout
from podium.core.errors import PodiumError, nearest
from podium.evaluation.resample import Array, Measure, estimate, mean
from podium.tables.information import decomposition, parity_bound, permutation_baseline

__all__ = ["ColumnGaps", "Dependence", "cells_of", "column_gaps", "dependence"]

Groups = Sequence[Sequence[Rollout]]
MANY = 5  # a number with more values than this is divided into quarters
TEXTS = ("text", "prompt", "failure")  # columns in which hardly a value occurs twice


def cells_of(groups: Groups, column: str) -> list[list[str]]:
    """[task][sample] the value of a column as a word; numbers of many values by quarters. `length` is in tokens."""
    values = [[_value(rollout, column) for rollout in group] for group in groups]
    flat = [value for group in values for value in group]
    numeric = all(isinstance(x, int | float | np.number) and not isinstance(x, bool) for x in flat)
    if not numeric or len(set(flat)) <= MANY:
        return [[str(value) for value in group] for group in values]
    edges = np.unique(np.quantile(np.array(flat, dtype=float), (0.25, 0.5, 0.75)))
    bounds = [f"{edge:g}" for edge in edges]
    names = [f"≤ {bounds[0]}", *(f"≤ {b}" for b in bounds[1:]), f"> {bounds[-1]}"]
    return [[names[int(np.searchsorted(edges, float(value)))] for value in group] for group in values]


def _value(rollout: Rollout, column: str) -> Any:
    if column == "length":
        return sum(len(turn.ids) for turn in rollout.turns)
    if column not in rollout.columns or column in TEXTS:
        known = sorted({"length", *rollout.columns} - set(TEXTS))
        raise PodiumError(f"Held-out rollouts have no column {column!r} to compare. {nearest(column, known)}")
    return rollout.columns[column]


@dataclass(frozen=True)
class ColumnGaps:
    """The success rate for each value of a column, and the largest difference of two."""

    column: str
    rates: dict[str, Measure]
    unanswered: dict[str, float]  # the share without an answer, which counts as wrong
    rollouts: dict[str, int]
    gap: Measure

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        values = {
            name: {**rate.as_dict(), "rollouts": self.rollouts[name], "unanswered": self.unanswered[name]}
            for name, rate in self.rates.items()
        }
        return {"column": self.column, "values": values, "gap": self.gap.as_dict()}


def column_gaps(groups: Groups, column: str) -> ColumnGaps:
    """Success by the values of a column, with intervals over tasks; a value that few tasks have is undefined in draws
    without them, not 0."""
    cells = cells_of(groups, column)
    names = sorted({name for group in cells for name in group}, key=_order)
    sums = np.zeros((len(groups), len(names), 3))  # [task, value]: right, rollouts, without an answer
    for task, (group, words) in enumerate(zip(groups, cells, strict=True)):
        for rollout, word in zip(group, words, strict=True):
            right, empty = bool(rollout.columns["correct"]), not str(rollout.columns["answer"]).strip()
            sums[task, names.index(word)] += (right, 1, empty)
    totals = sums.sum(0)
    rates = {
        name: estimate(sums[None, sums[:, n, 1] > 0][:, :, n, :2], mean, bounds=(0, 1)) for n, name in enumerate(names)
    }
    gap = estimate(sums[None, :, :, :2].reshape(1, len(groups), -1), _largest_gap, bounds=(0, 1))
    return ColumnGaps(
        column,
        rates,
        {name: float(totals[n, 2] / totals[n, 1]) for n, name in enumerate(names)},
        {name: int(totals[n, 1]) for n, name in enumerate(names)},
        gap,
    )


def _largest_gap(sums: Array) -> Array:
    """[draw] the largest difference of two rates; nan where a value does not occur."""
    pairs = sums.reshape(len(sums), -1, 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        rate = pairs[..., 0] / pairs[..., 1]
    return rate.max(1) - rate.min(1)


def _order(name: str) -> tuple[int, float, str]:
    """Numbers and quarters by size, then words."""
    head = name.removeprefix("≤ ").removeprefix("> ")
    try:
        return (1 if name.startswith("> ") else 0, float(head), name)
    except ValueError:
        return (2, 0.0, name)


@dataclass(frozen=True)
class Dependence:
    """What success tells about a column, over all tasks and within domains, in bits."""

    column: str
    overall: float  # I(Z; success)
    within: float  # I(Z; success | domain)
    unique: float
    redundant: float
    masked: float
    chance_overall: float  # what permuting the column leaves: the bias of the estimate
    chance_within: float
    bound: float | None  # the largest gap of success that `overall` allows, of a column with two values
    domains: int

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return dict(vars(self))


def dependence(groups: Groups, column: str) -> Dependence:
    """The disparities of a column and their decomposition over domains. Overall = unique + redundant (what the domain
    already tells), within = unique + masked (what appears only when the domain is known)."""
    flat = [rollout for group in groups for rollout in group]
    words = [word for group in cells_of(groups, column) for word in group]
    right = np.array([int(bool(rollout.columns["correct"])) for rollout in flat])
    values, z = np.unique(words, return_inverse=True)
    domains, s = np.unique([str(rollout.columns["domain"]) for rollout in flat], return_inverse=True)
    joint = np.zeros((len(domains), len(values), 2))
    np.add.at(joint, (s, z, right), 1.0)
    found = decomposition(joint)
    share = float((z == 0).mean())
    return Dependence(
        column,
        *(found.global_disparity, found.local_disparity, found.unique, found.redundant, found.masked),
        chance_overall=permutation_baseline(z, right),
        chance_within=permutation_baseline(z, right, s),
        bound=parity_bound(found.global_disparity, share) if len(values) == 2 else None,
        domains=len(domains),
    )
