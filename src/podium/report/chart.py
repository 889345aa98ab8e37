"""Line charts as SVG text: enough for curves of a run, with bands for intervals."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Series", "chart"]

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 380, 220, 52, 12, 30, 34
COLOURS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f")


@dataclass(frozen=True)
class Series:
    """A named curve; `low` and `high` draw a band around it."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


def chart(title: str, series: Sequence[Series], *, x_label: str = "iteration") -> str:
    """One chart with a curve a series; values that are not finite are left out."""
    drawn = [s for s in series if any(math.isfinite(v) for v in s.y)]
    if not drawn:
        return ""
    xs = [v for s in drawn for v in s.x]
    ys = [v for s in drawn for v in (*s.y, *(s.low or ()), *(s.high or ())) if math.isfinite(v)]
    x0, x1 = min(xs), max(xs)
    ticks = _ticks(min(ys), max(ys))
    y0, y1 = ticks[0], ticks[-1]

    def px(x: float) -> float:
        return LEFT + (x - x0) / ((x1 - x0) or 1) * (WIDTH - LEFT - RIGHT)

    def py(y: float) -> float:
        return HEIGHT - BOTTOM - (y - y0) / ((y1 - y0) or 1) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}">']
    parts.append(f'<text x="{LEFT}" y="16" class="title">{html.escape(title)}</text>')
    for tick in ticks:
        y = py(tick)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" class="tick" text-anchor="end">{tick:g}</text>')
    for x, anchor in ((x0, "start"), (x1, "end")):
        parts.append(f'<text x="{px(x):.1f}" y="{HEIGHT - 18}" class="tick" text-anchor="{anchor}">{x:g}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 6}" class="tick" text-anchor="middle">{html.escape(x_label)}</text>')
    for number, s in enumerate(drawn):
        colour = COLOURS[number % len(COLOURS)]
        if s.low is not None and s.high is not None:
            edge = [(px(x), py(v)) for x, v in zip(s.x, s.high, strict=True)]
            edge += [(px(x), py(v)) for x, v in reversed(list(zip(s.x, s.low, strict=True)))]
            parts.append(f'<polygon points="{_points(edge)}" fill="{colour}" opacity="0.15"/>')
        line = [(px(x), py(y)) for x, y in zip(s.x, s.y, strict=True) if math.isfinite(y)]
        parts.append(f'<polyline points="{_points(line)}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        if len(line) <= 30:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="{colour}"/>' for x, y in line]
    return "".join(parts) + "</svg>" + _legend(drawn)


def _legend(series: Sequence[Series]) -> str:
    if len(series) < 2:
        return ""
    items = "".join(
        f'<span><i style="background:{COLOURS[n % len(COLOURS)]}"></i>{html.escape(s.name)}</span>'
        for n, s in enumerate(series)
    )
    return f'<div class="legend">{items}</div>'


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _ticks(low: float, high: float) -> list[float]:
    """Four to seven round numbers that cover [low, high]."""
    if high <= low:
        high = low + (abs(low) or 1.0)
    raw = (high - low) / 4
    size = 10 ** math.floor(math.log10(raw))
    step = next(m * size for m in (1, 2, 2.5, 5, 10) if m * size >= raw)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]
