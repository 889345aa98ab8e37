"""Gaps between groups of the quality of decisions, over runs, under a change, and after resampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["change_probe", "gap_summary", "group_metrics", "macro_f1", "metric_differences", "resample_counts"]

Array = np.ndarray
METRICS = ("ACC", "F1", "SP", "EoO")
UNPARSABLE = -1


def macro_f1(label: ArrayLike, prediction: ArrayLike) -> float:
    """The mean F1 over the classes that occur among the labels."""
    y, answer = np.asarray(label), np.asarray(prediction)
    scores = []
    for name in np.unique(y):
        hit = float(((y == name) & (answer == name)).sum())
        scores.append(2 * hit / float((y == name).sum() + (answer == name).sum()))
    return float(np.mean(scores))


def _metrics(y: Array, answer: Array) -> dict[str, float | None]:
    parsed = answer != UNPARSABLE
    positive, n = int((parsed & (y == 1)).sum()), int(parsed.sum())
    return {
        "ACC": float((y == answer).mean()),
        "F1": macro_f1(y, answer),
        "SP": float((answer == 1).sum()) / n if n else None,
        "EoO": float(((y == 1) & (answer == 1)).sum()) / positive if positive else None,
    }


def group_metrics(
    label: ArrayLike, prediction: ArrayLike, group: Sequence[str]
) -> tuple[dict[str, dict[str, float | None]], float]:
    """By group: accuracy, macro F1, the share of positive decisions (SP) and the true-positive rate (EoO); and the
    accuracy over all. An answer of −1 could not be parsed: it is wrong, and it is left out of SP and EoO, so that
    refusals can hide a gap. A rate of nobody is None."""
    y, answer, names = np.asarray(label), np.asarray(prediction), np.asarray(group)
    by_group = {str(name): _metrics(y[names == name], answer[names == name]) for name in np.unique(names)}
    return by_group, float((y == answer).mean())


def metric_differences(by_group: Mapping[str, Mapping[str, float | None]]) -> dict[str, float | None]:
    """The first group in sorted order minus the second; None where either is undefined."""
    first, second = (by_group[name] for name in sorted(by_group)[:2])
    return {
        key: None if (a := first[key]) is None or (b := second[key]) is None else a - b
        for key in METRICS
        if key in first
    }


def gap_summary(
    label: ArrayLike, runs: Sequence[ArrayLike], group: Sequence[str]
) -> tuple[list[dict[str, float | None]], dict[str, dict[str, float | None]]]:
    """The differences of every run, and their mean and sample standard deviation over the runs that have one."""
    per_run = [metric_differences(group_metrics(label, run, group)[0]) for run in runs]
    summary: dict[str, dict[str, float | None]] = {}
    for key in METRICS:
        known = np.array([run[key] for run in per_run if run[key] is not None], dtype=float)
        summary[key] = {
            "mean": float(known.mean()) if len(known) else None,
            "std": float(known.std(ddof=1)) if len(known) > 1 else None,
        }
    return per_run, summary


def change_probe(before: ArrayLike, after: ArrayLike, group: Sequence[str]) -> dict[str, Any]:
    """How many decisions a change of the question moves (another group word, flipped labels of examples), and what it
    does to the rate of positive ones, by group."""
    old, new, names = np.asarray(before), np.asarray(after), np.asarray(group)
    cells = {str(name): names == name for name in np.unique(names)}
    return {
        "change_rate": float((old != new).mean()),
        "change_rate_by_group": {name: float((old != new)[cell].mean()) for name, cell in cells.items()},
        "positive_rate_shift": {
            name: float((new[cell] == 1).mean() - (old[cell] == 1).mean()) for name, cell in cells.items()
        },
    }


def resample_counts(group: Sequence[str]) -> dict[str, Any]:
    """How many of each group there are after the smallest is drawn up to the largest, or the largest down to it; the
    first name on ties."""
    names, sizes = np.unique(np.asarray(group), return_counts=True)
    counts = {str(name): int(size) for name, size in zip(names, sizes, strict=True)}
    minority, majority = min(counts, key=lambda name: counts[name]), max(counts, key=lambda name: counts[name])
    return {
        "counts": counts,
        "minority": minority,
        "majority": majority,
        "oversample_extra": counts[majority] - counts[minority],
        "after_oversampling": dict.fromkeys(counts, counts[majority]),
        "after_undersampling": dict.fromkeys(counts, counts[minority]),
    }
