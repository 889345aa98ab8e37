"""The curves of a run: drawn into the page as pictures, which scripts replace by those with hover and zoom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podium.report.chart import Series, chart

__all__ = ["curve_charts", "curve_data", "measured_lines"]

# What is drawn, where a run has it: (title, metric, whether it is a share of 1).
CURVES = (
    ("reward", "reward", False),
    ("right answers", "pass@1", True),
    ("KL to the reference (nats per token)", "kl.ref", False),
    ("entropy (nats per token)", "entropy", False),
    ("length (tokens)", "length", False),
    ("turns", "turns", False),
    ("actions that are not valid", "invalid", True),
    ("groups without signal", "flat_groups", True),
    ("clipped tokens", "clip_fraction", True),
    ("answers cut off", "truncated", True),
    ("gradient norm", "grad_norm.policy", False),
    ("seconds of an iteration", "seconds", False),
    ("sampled tokens per second", "tokens_per_s", False),
    ("tasks with several best answers", "ties.share", True),
    ("gap of the best to the second best answer", "ties.gap", False),
    ("optimal policy moved by the extra reward", "ties.hard_tv", False),
    ("correlation of reward and outcome", "proxy.correlation", False),
)
PASS = ("eval.pass@1", "eval.pass@1.low", "eval.pass@1.high")
NAMES = {"iteration", "tokens", "seconds", "acted", *PASS, *(name for _, name, _ in CURVES), "sampler_gap"}


def measured_lines(metrics: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The lines with a held-out evaluation."""
    return [m for m in metrics if all(isinstance(m.get(k), (int, float)) for k in PASS)]


def curve_data(metrics: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What scripts draw: the lines of metrics with the numbers that are shown, in few digits."""
    return [{name: _short(value) for name, value in line.items() if name in NAMES} for line in metrics]


def _short(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _short(x) for name, x in value.items()}
    if isinstance(value, float):
        return float(f"{value:.5g}") if abs(value) < float("inf") else None
    return value


def curve_charts(metrics: Sequence[Mapping[str, Any]]) -> str:
    """The charts as pictures. Shares go from 0 to 1, and what cannot be negative starts at 0."""
    drawn = []
    measured = measured_lines(metrics)
    if measured:
        y, low, high = ([m[k] for m in measured] for k in PASS)
        series = Series("pass@1", [m["iteration"] for m in measured], y, low, high)
        drawn.append(chart("held-out pass@1", [series], within=(0.0, 1.0)))
    for title, name, is_share in CURVES:
        found = [(line["iteration"], value) for line in metrics if (value := _value(line, name)) is not None]
        if found:
            values = [value for _, value in found]
            as_share = is_share or (name == "reward" and min(values) >= 0 and max(values) <= 1)
            within = (0.0, 1.0) if as_share else (min(0.0, *values), max(0.0, *values))
            drawn.append(chart(title, [Series(title, [place for place, _ in found], values)], within=within))
    return "".join(f"<div>{svg}</div>" for svg in drawn if svg)


def _value(line: Mapping[str, Any], name: str) -> float | None:
    seconds = sum((line.get("seconds") or {}).values())
    if name == "seconds":
        return seconds or None
    if name == "tokens_per_s":
        return line["tokens"] / seconds if seconds and line.get("tokens") else None
    value = line.get(name)
    return float(value) if isinstance(value, (int, float)) and abs(value) < float("inf") else None
