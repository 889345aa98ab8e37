"""Charts as SVG text: curves with bands for intervals, points, and stacked bars."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["BLUE", "GREEN", "GREY", "RED", "Series", "bars", "chart", "picture"]

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 380, 220, 52, 12, 30, 34
# Legible on light and on dark.
BLUE, RED, GREEN, GREY = "#3b82f6", "#e5484d", "#0fa968", "#8b94a3"
COLOURS = (BLUE, RED, GREEN, "#d98a0b", "#8b5cf6", "#0c9bb5", "#d6409f", "#5f9e0f", "#8a6a4f", "#64748b")
DASHES = ("5 4", "1.5 3", "9 3 1.5 3", "2 6", "14 4")
ALONE = "text{font:11px sans-serif;fill:#7b8290}.title{font-weight:600}.grid{stroke:#8884;stroke-width:.5}"


@dataclass(frozen=True)
class Series:
    """A named curve; `low` and `high` draw a band around it."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    style: str = "line"  # line, dashed (in grey, for what the others are held against), dots or thin
    colour: int | None = None  # which colour of the palette, or kind of dashes; None: that of its place


def chart(
    title: str,
    series: Sequence[Series],
    *,
    x_label: str = "iteration",
    log_x: bool = False,
    log_y: bool = False,
    within: tuple[float, float] | None = None,
) -> str:
    """One chart with one curve per series; values that are not finite are left out. The axis includes `within`."""
    drawn = [s for s in series if any(math.isfinite(v) for v in s.y)]
    if not drawn:
        return ""
    xs = [v for s in drawn for v in s.x]
    ys = [v for s in drawn for v in (*s.y, *(s.low or ()), *(s.high or ())) if math.isfinite(v)]
    ys += within or ()
    x0, x1 = min(xs), max(xs)
    ticks = _doublings(min(ys), max(ys)) if log_y else _ticks(min(ys), max(ys))

    def along(x: float) -> float:
        return math.log2(x) if log_x else x

    def up(y: float) -> float:
        return math.log2(y) if log_y else y

    y0, y1 = up(ticks[0]), up(ticks[-1])

    def px(x: float) -> float:
        return LEFT + (along(x) - along(x0)) / ((along(x1) - along(x0)) or 1) * (WIDTH - LEFT - RIGHT)

    def py(y: float) -> float:
        return HEIGHT - BOTTOM - (up(y) - y0) / ((y1 - y0) or 1) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}">']
    parts.append(f'<text x="{LEFT}" y="16" class="title">{html.escape(title)}</text>')
    for tick in ticks:
        y = py(tick)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" class="tick" text-anchor="end">{tick:g}</text>')
    marks = [2.0**e for e in range(math.ceil(along(x0)), int(along(x1)) + 1)] if log_x else _ticks(x0, x1)
    if all(float(x).is_integer() for x in xs):  # there is no iteration 1.5
        marks = [m for m in marks if float(m).is_integer()]
    for x in [m for m in marks if x0 <= m <= x1] or [x0]:
        parts.append(f'<text x="{px(x):.1f}" y="{HEIGHT - 20}" class="tick" text-anchor="middle">{_short(x)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 6}" class="tick" text-anchor="middle">{html.escape(x_label)}</text>')
    for number, s in enumerate(drawn):  # bands lie under all curves
        if s.low is not None and s.high is not None:
            edge = [(px(x), py(v)) for x, v in zip(s.x, s.high, strict=True)]
            edge += [(px(x), py(v)) for x, v in reversed(list(zip(s.x, s.low, strict=True)))]
            faint = 0.15 if len(drawn) < 3 else 0.09
            parts.append(f'<polygon points="{_points(edge)}" fill="{_colour(number, s)}" opacity="{faint}"/>')
    for number, s in enumerate(drawn):
        colour, dash = _colour(number, s), _dash(s)
        line = [(px(x), py(y)) for x, y in zip(s.x, s.y, strict=True) if math.isfinite(y)]
        if s.style != "dots":
            width = 1 if s.style == "thin" else 1.8
            shape = f'fill="none" stroke="{colour}" stroke-width="{width}"{dash}'
            parts.append(f'<polyline points="{_points(line)}" {shape}/>')
        if len(line) <= 30 and s.style in ("line", "dots"):
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="{colour}"/>' for x, y in line]
    return "".join(parts) + "</svg>" + _legend([(s.name, _colour(n, s)) for n, s in enumerate(drawn)])


def picture(charts: Sequence[str], series: Sequence[Series], *, columns: int = 2) -> str:
    """Charts of the same series as one picture in a file of its own, with its style and one legend inside."""
    columns = min(columns, len(charts))
    parts = []
    for place, drawn in enumerate(charts):
        x, y = place % columns * WIDTH, place // columns * HEIGHT
        inside = drawn.partition("</svg>")[0].removeprefix("<svg")
        parts.append(f'<svg x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}"{inside}</svg>')
    x, y = LEFT, -(-len(charts) // columns) * HEIGHT + 12
    for number, s in enumerate(series):
        width = 42 + round(5.8 * len(s.name))
        if x + width > columns * WIDTH and x > LEFT:
            x, y = LEFT, y + 16
        line = f'stroke="{_colour(number, s)}" stroke-width="2.2"{_dash(s)}'
        parts.append(f'<path d="M{x} {y - 4}h20" {line}/><text x="{x + 25}" y="{y}">{html.escape(s.name)}</text>')
        x += width
    size = f'viewBox="0 0 {columns * WIDTH} {y + 8}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{ALONE}</style>{"".join(parts)}</svg>\n'


def bars(
    title: str, rows: Sequence[tuple[str, Sequence[float]]], parts: Sequence[tuple[str, str]], *, x_label: str
) -> str:
    """One bar per row, stacked from the counts of its parts; the number is written where there is room.

    Each part has a name and a colour.
    """
    total = max(sum(values) for _, values in rows) or 1.0
    left, step = 130, 34
    height = TOP + step * len(rows) + BOTTOM
    drawn = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(title)}">']
    drawn.append(f'<text x="{LEFT}" y="16" class="title">{html.escape(title)}</text>')
    for place, (name, values) in enumerate(rows):
        x, y = float(left), TOP + step * place + 4
        drawn.append(f'<text x="{left - 6}" y="{y + 16}" class="tick" text-anchor="end">{html.escape(name)}</text>')
        for (_, colour), value in zip(parts, values, strict=True):
            width = value / total * (WIDTH - left - RIGHT)
            drawn.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="24" fill="{colour}"/>')
            if width > 9 * len(f"{value:g}"):
                shown = f'x="{x + width / 2:.1f}" y="{y + 16}" class="count" text-anchor="middle"'
                drawn.append(f"<text {shown}>{value:g}</text>")
            x += width
    middle = (left + WIDTH - RIGHT) / 2
    drawn.append(
        f'<text x="{middle}" y="{height - 12}" class="tick" text-anchor="middle">{html.escape(x_label)}</text>'
    )
    return "".join(drawn) + "</svg>" + _legend(parts)


def _colour(number: int, series: Series) -> str:
    return (
        GREY
        if series.style == "dashed"
        else COLOURS[(number if series.colour is None else series.colour) % len(COLOURS)]
    )


def _dash(series: Series) -> str:
    dashes = DASHES[(series.colour or 0) % len(DASHES)]
    return f' stroke-dasharray="{dashes}"' if series.style == "dashed" else ""


def _legend(named: Sequence[tuple[str, str]]) -> str:
    items = [f'<span><i style="background:{colour}"></i>{html.escape(name)}</span>' for name, colour in named if name]
    return f'<div class="legend">{"".join(items)}</div>' if len(items) > 1 else ""


def _short(value: float) -> str:
    """A tick as a person would write it."""
    return f"{value / 1e6:g}M" if value >= 1e6 else f"{value / 1e3:g}k" if value >= 1e3 else f"{value:g}"


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _doublings(low: float, high: float) -> list[float]:
    """Powers of 2 that cover [low, high], every second or third where they are many."""
    first, last = math.floor(math.log2(low)), math.ceil(math.log2(high))
    step = max(1, -(-(last - first) // 6))
    return [2.0**k for k in range(first, max(last, first + 1) + step, step)]


def _ticks(low: float, high: float) -> list[float]:
    """Four to seven round numbers that cover [low, high]."""
    if high <= low:
        high = low + (abs(low) or 1.0)
    raw = (high - low) / 4
    size = 10 ** math.floor(math.log10(raw))
    step = next(m * size for m in (1, 2, 2.5, 5, 10) if m * size >= raw)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]
