"""The rollouts of a group as a tree: where they part, and what each segment is worth."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from podium.core.columns import Purpose
from podium.report.chart import GREEN, GREY, RED

__all__ = ["forest", "tree"]

WIDTH, LEFT, RIGHT, TOP, ROW, BOTTOM = 760, 14, 150, 30, 17, 26
VALUES = ("node.value", "node.worth")  # what a method says a node is worth; else the mean reward of its rollouts
Row = Mapping[str, Any]


@dataclass
class _Vertex:
    """A segment that one or several rollouts share."""

    start: int  # its first token
    end: int
    rows: list[Row] = field(default_factory=list)
    children: list[_Vertex] = field(default_factory=list)
    value: float | None = None
    advantage: float | None = None
    entropy: float | None = None
    y: float = 0.0


def forest(rows: Sequence[Row], count: int = 2) -> str:
    """The trees of the first groups that have one; nothing where no rollout shares anything."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(row)
    grown = [group for group in groups.values() if any(row.get("fork") or 0 for row in group)]
    return "".join(f'<div class="tree">{tree(group)}</div>' for group in grown[:count])


def tree(rows: Sequence[Row]) -> str:
    """A tree from left to right: one line per segment, as long as its text, green where it is worth much and red where
    little; a dot where rollouts part, the larger the less certain the token there."""
    root = _planted(rows)
    height = TOP + _place(root, 0.0) * ROW + BOTTOM
    longest = max((v.end for v in _all(root)), default=1) or 1
    values = [v.value for v in _all(root) if v.value is not None]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)

    def px(token: int) -> float:
        return LEFT + token / longest * (WIDTH - LEFT - RIGHT)

    title = html.escape(str(rows[0]["task"]))
    parts = [f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="rollouts of {title} as a tree">']
    parts.append(f'<text x="{LEFT}" y="16" class="title">{title}</text>')
    for vertex in _all(root):
        y = TOP + vertex.y * ROW
        for child in vertex.children:
            below = TOP + child.y * ROW
            x = px(vertex.end)
            parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y:.1f}" y2="{below:.1f}" stroke="{GREY}"/>')
        if vertex is root:
            continue
        tooltip = f"<title>{html.escape(_told(vertex))}</title>"
        colour = _colour(vertex.value, low, high)
        ends = f'x1="{px(vertex.start):.1f}" x2="{px(vertex.end):.1f}" y1="{y:.1f}" y2="{y:.1f}"'
        parts.append(f'<line {ends} stroke="{colour}" stroke-width="4" stroke-linecap="round">{tooltip}</line>')
        if vertex.children:
            radius = 3 + 2.5 * min(vertex.entropy or 0.0, 2.0)
            parts.append(
                f'<circle cx="{px(vertex.end):.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}">{tooltip}</circle>'
            )
        else:
            parts.append(f'<text x="{px(vertex.end) + 8:.1f}" y="{y + 4:.1f}" class="tick">{_label(vertex)}</text>')
    ruler = height - BOTTOM + 16
    parts.append(f'<text x="{LEFT}" y="{ruler:.0f}" class="tick">0</text>')
    parts.append(f'<text x="{px(longest):.1f}" y="{ruler:.0f}" class="tick" text-anchor="end">{longest} tokens</text>')
    return "".join([*parts, "</svg>"])


def _planted(rows: Sequence[Row]) -> _Vertex:
    """The vertices of a group, from the keys and lengths of its rollouts' nodes."""
    root, vertices = _Vertex(0, 0), dict[tuple[Any, ...], _Vertex]()
    for row in sorted(rows, key=lambda row: row["index"]):
        above, start = root, 0
        worth = next((row[name] for name in VALUES if name in row), None)
        for number, size in enumerate(row["node.length"]):
            way = tuple(row["node.key"][: number + 1])
            if way not in vertices:
                vertices[way] = _Vertex(start, start + size)
                above.children.append(vertices[way])
                vertices[way].value = None if worth is None else worth[number]
                credit = row.get("token.advantage")
                kept = all(row[name][number] for name in row if name.startswith("node.keep."))
                vertices[way].advantage = credit[start] if credit is not None and size and kept else None
            vertex = vertices[way]
            entropy = row.get("token.sampler.entropy")
            if entropy is not None and start + size < len(entropy):  # of the token at which it parts
                vertex.entropy = max(vertex.entropy or 0.0, entropy[start + size])
            vertex.rows.append(row)
            above, start = vertex, start + size
    for vertex in _all(root):
        if vertex.value is None and vertex.rows:
            counted = [r["reward"] for r in vertex.rows if r["purpose"] != int(Purpose.replaced)] or [0.0]
            vertex.value = sum(counted) / len(counted)
    return root


def _all(vertex: _Vertex) -> list[_Vertex]:
    return [vertex, *(v for child in vertex.children for v in _all(child))]


def _place(vertex: _Vertex, row: float) -> float:
    """Give every leaf a line of its own and every other vertex the middle of its children's; the next free line."""
    if not vertex.children:
        vertex.y = row
        return row + 1
    for child in vertex.children:
        row = _place(child, row)
    vertex.y = (vertex.children[0].y + vertex.children[-1].y) / 2
    return row


def _colour(value: float | None, low: float, high: float) -> str:
    """From red over grey to green."""
    if value is None or high <= low:
        return GREY
    share = (value - low) / (high - low)
    first, second, mix = (RED, GREY, 2 * share) if share < 0.5 else (GREY, GREEN, 2 * share - 1)
    pairs = [(int(first[i : i + 2], 16), int(second[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * mix):02x}" for a, b in pairs)


def _told(vertex: _Vertex) -> str:
    numbers = {"value": vertex.value, "advantage": vertex.advantage, "entropy after it": vertex.entropy}
    said = [f"{name} {x:.3g}" for name, x in numbers.items() if x is not None]
    shared = f"tokens {vertex.start} to {vertex.end}, {len(vertex.rows)} rollouts"
    return "\n".join([shared, ", ".join(said), *([] if vertex.children else [str(vertex.rows[0]["text"])])])


def _label(vertex: _Vertex) -> str:
    row = vertex.rows[0]
    mark = "✓" if row["correct"] else "✗"
    purpose = Purpose(row["purpose"])
    only = "" if purpose is Purpose.train else f" {purpose.name}"
    credit = "" if vertex.advantage is None or only else f"  A {vertex.advantage:+.2f}"
    return html.escape(f"{mark} {row['reward']:g}{credit}{only}")
