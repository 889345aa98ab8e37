"""The packages of a source tree and who imports whom, as numbers and as a picture.

    python -m tools.import_graph SOURCE --svg docs/assets/imports.svg --title "Import graph"

Imports inside functions count, those under TYPE_CHECKING do not. Packages that import each other, directly or in a
circle, are drawn in one box with red arrows.
"""

from __future__ import annotations

import argparse
import ast
import html
import math
from collections import Counter, defaultdict
from pathlib import Path

Edges = dict[tuple[str, str], int]


def imports(source: Path) -> Edges:
    """How many imports lead from one package to another; `source` is the folder of the root package."""
    edges: Counter[tuple[str, str]] = Counter()
    root = source.name
    for path in source.rglob("*.py"):
        package = path.relative_to(source).parts[0]
        package = root if package.endswith(".py") else package
        for module in _imported(ast.parse(path.read_text("utf-8")), root):
            target = module if (source / module).is_dir() else root
            if target != package:
                edges[package, target] += 1
    return dict(edges)


def _imported(node: ast.AST, root: str) -> list[str]:
    """The packages below the root that a tree imports."""
    packages = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.ImportFrom) and child.module:
            parts = child.module.split(".")
            if parts[0] == root:
                packages += [parts[1]] if len(parts) > 1 else [alias.name for alias in child.names]
        elif isinstance(child, ast.Import):
            names = [alias.name.split(".") for alias in child.names]
            packages += [parts[-1] if len(parts) == 1 else parts[1] for parts in names if parts[0] == root]
        packages += _imported(child, root)
    return packages


def knots(edges: Edges) -> list[set[str]]:
    """The strongly connected components: packages that reach each other."""
    nodes = {node for edge in edges for node in edge}
    reach = {node: {node} for node in nodes}
    changed = True
    while changed:
        changed = False
        for a, b in edges:
            if not reach[b] <= reach[a]:
                reach[a] |= reach[b]
                changed = True
    components: list[set[str]] = []
    for node in sorted(nodes):
        if not any(node in component for component in components):
            components.append({other for other in reach[node] if node in reach[other]})
    return components


def ranks(edges: Edges, components: list[set[str]]) -> dict[str, int]:
    """How high each package stands: one above the highest of those that it imports."""
    of = {node: number for number, component in enumerate(components) for node in component}
    below = defaultdict(set)
    for a, b in edges:
        if of[a] != of[b]:
            below[of[a]].add(of[b])

    def height(component: int) -> int:
        return 1 + max((height(other) for other in below[component]), default=-1)

    heights = {number: height(number) for number in range(len(components))}
    return {node: heights[number] for node, number in of.items()}


def draw(edges: Edges, title: str) -> str:
    """An SVG with the highest package at the top. An arrow's width grows with the number of imports."""
    components = knots(edges)
    heights = ranks(edges, components)
    rows: dict[int, list[str]] = defaultdict(list)
    for node in sorted(heights):
        rows[heights[node]].append(node)
    tangled = {node for component in components if len(component) > 1 for node in component}
    width, row_height, box = 960, 74, 100
    ring = 190 if tangled else 0  # the packages of a circle stand around an ellipse of this height
    place = {}
    for rank, row in rows.items():
        straight = [node for node in row if node not in tangled]
        y = 70 + (len(rows) - 1 - rank) * row_height
        for i, node in enumerate(straight):
            place[node] = (width * (i + 1) / (len(straight) + 1), float(y))
        around = [node for node in row if node in tangled]
        for i, node in enumerate(around):
            angle = 2 * math.pi * i / len(around)
            place[node] = (width / 2 + 400 * math.cos(angle), y + ring + ring * math.sin(angle))
    height = max(y for _, y in place.values()) + 40
    lines = []
    for (a, b), count in sorted(edges.items(), key=lambda item: item[1]):
        (x1, y1), (x2, y2) = place[a], place[b]
        circular = a in tangled and b in tangled
        colour, opacity = ("#c0392b", 0.55) if circular else ("#5b6b7b", 0.35)
        x1, y1, x2, y2 = (x1, y1 + 12, x2, y2 - 13) if y1 < y2 else (x1, y1 - 13, x2, y2 + 12)
        bend = 0 if abs(y2 - y1) > 30 else -30
        lines.append(
            f'<path d="M{x1:.0f} {y1:.0f} Q{(x1 + x2) / 2:.0f} {(y1 + y2) / 2 + bend:.0f} {x2:.0f} {y2:.0f}" '
            f'fill="none" stroke="{colour}" stroke-opacity="{opacity}" stroke-width="{min(1 + count / 25, 5):.1f}" '
            f'marker-end="url(#{"red" if circular else "grey"})"/>'
        )
    for node, (x, y) in place.items():
        fill = "#fdecea" if node in tangled else "#eef3f8"
        lines.append(
            f'<rect x="{x - box / 2:.0f}" y="{y - 13:.0f}" width="{box}" height="26" rx="5" fill="{fill}" '
            f'stroke="#8795a3"/><text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle">{html.escape(node)}</text>'
        )
    markers = "".join(
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" '
        'markerUnits="userSpaceOnUse" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
        for name, colour in (("grey", "#5b6b7b"), ("red", "#c0392b"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" width="{width}" '
        f'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="white"/>'
        f"<defs>{markers}</defs>"
        f'<text x="20" y="26" font-size="16" font-weight="bold">{html.escape(title)}</text>'
        + "".join(lines)
        + "</svg>\n"
    )


def report(source: Path, edges: Edges) -> str:
    files = list(source.rglob("*.py"))
    lengths = sorted(((len(p.read_text("utf-8").splitlines()), p.relative_to(source)) for p in files), reverse=True)
    packages = {path.parent for path in files if path.name == "__init__.py"}
    largest = max((len(component) for component in knots(edges)), default=0)
    return "\n".join(
        [
            f"files {len(files)}, packages {len(packages)}, lines {sum(n for n, _ in lengths)}",
            f"longest: {', '.join(f'{path} {n}' for n, path in lengths[:5])}",
            f"package imports {len(edges)}, largest circle {largest}",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="the folder of the package, such as src/podium")
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--title", default="Who imports whom")
    given = parser.parse_args()
    edges = imports(given.source)
    print(report(given.source, edges))
    if given.svg:
        given.svg.write_text(draw(edges, given.title), "utf-8")


if __name__ == "__main__":
    main()
