"""What is read off the record of a run: by itself, or beside the record of the run that it is paired with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium.core.errors import PodiumError

__all__ = ["METRICS", "TARGET", "RunMetric", "at_equal", "metric_value", "reached"]

Record = Mapping[str, Any]  # `final`: numbers by name; `curve`: lists of equal length by name, one entry an iteration
FLOOR = 1e-6  # of a relative metric: a policy that is certain has no entropy
TARGET = 0.6  # the pass@1 that must be reached
SMOOTH = 5  # iterations over which a curve is averaged before it is compared with a level


@dataclass(frozen=True)
class RunMetric:
    """A metric; where it is relative its logarithm is compared."""

    text: str
    read: Callable[[Record, Record], float]
    relative: bool = False


def _smoothed(values: Sequence[float], width: int = SMOOTH) -> np.ndarray:
    """The mean of each value and up to `width` − 1 before it."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(total))
    starts = np.maximum(ends - width, 0)
    return (total[ends] - total[starts]) / (ends - starts)


def reached(curve: Sequence[float], cost: Sequence[float], target: float = TARGET) -> float:
    """The cost after which a curve, _smoothed, is at a target; all of it where it never is."""
    above = np.flatnonzero(_smoothed(curve) >= target)
    return float(cost[above[0]] if len(above) else cost[-1])


def at_equal(one: Record, other: Record, by: str, of: str) -> float:
    """`of` of the first run where its `by` is first at the highest level that both reach."""
    level = min(_smoothed(record["curve"][by]).max() for record in (one, other))
    place = int(np.flatnonzero(_smoothed(one["curve"][by]) >= level - 1e-12)[0])
    return float(_smoothed(one["curve"][of])[place])


def _final(name: str) -> Callable[[Record, Record], float]:
    return lambda own, other: float(own["final"][name])


def _gap(own: Record, other: Record) -> float:
    curve = own["curve"]["pass@1"]
    return float(np.mean(curve[-max(1, len(curve) // 4) :])) - float(own["final"]["pass@1"])


METRICS: dict[str, RunMetric] = {
    **{f"pass@{k}": RunMetric(f"pass@{k}", _final(f"pass@{k}")) for k in (1, 8, 32, 64)},
    "auc": RunMetric("pass@1, mean over training", lambda own, other: float(np.mean(own["curve"]["pass@1"]))),
    "best": RunMetric("best pass@1 in training", lambda own, other: float(_smoothed(own["curve"]["pass@1"]).max())),
    "entropy": RunMetric("entropy of a token", _final("entropy"), relative=True),
    "length": RunMetric("length of answers", _final("length"), relative=True),
    "wrong_length": RunMetric("length of wrong answers", _final("wrong_length"), relative=True),
    "entropy_at_equal": RunMetric(
        "entropy at equal pass@1", lambda own, other: at_equal(own, other, "pass@1", "entropy"), relative=True
    ),
    "length_at_equal": RunMetric(
        "length at equal pass@1", lambda own, other: at_equal(own, other, "pass@1", "length"), relative=True
    ),
    "tokens_to": RunMetric(
        f"tokens to pass@1 {TARGET}",
        lambda own, other: reached(own["curve"]["pass@1"], np.cumsum(own["curve"]["tokens"]).tolist()),
        relative=True,
    ),
    "updates_to": RunMetric(
        f"updates to pass@1 {TARGET}",
        lambda own, other: reached(own["curve"]["pass@1"], np.cumsum(own["curve"]["updates"]).tolist()),
        relative=True,
    ),
    "gap": RunMetric("pass@1 in training less held-out", _gap),
    "flat": RunMetric("share of groups without signal", lambda own, other: float(np.mean(own["curve"]["flat"]))),
    "gradient_square": RunMetric(
        "mean squared gradient norm", lambda own, other: float(np.mean(own["curve"]["gradient"])), relative=True
    ),
}


def metric_value(name: str, own: Record, other: Record) -> float:
    """The metric of a run beside its pair; of a relative one the logarithm."""
    metric = METRICS[name]
    try:
        value = metric.read(own, other)
    except LookupError as problem:
        raise PodiumError(f"A record has no {problem}, which {name} is made from.") from None
    return float(np.log(max(value, FLOOR))) if metric.relative else value
