"""What the catalogue covers of a survey's axes, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from podium.cli.console import line, table
from podium.docs.catalogue_text import CatalogueText

__all__ = ["covered", "show_coverage"]

Cells = Mapping[str, Mapping[str, Sequence[str]]]  # axis, value, slugs


def covered(catalogue: CatalogueText) -> Cells:
    """The methods of each value of each axis; the one that shows it best comes first."""
    cells: dict[str, dict[str, list[str]]] = {}
    for place, (axis, values) in enumerate(catalogue.axes.items()):
        for value, best in values.items():
            slugs = [slug for slug, e in catalogue.entries.items() if e.survey and e.survey[place] == value]
            cells.setdefault(axis, {})[value] = sorted(slugs, key=lambda slug: slug != best)
    return cells


def show_coverage(cells: Cells, catalogue: CatalogueText) -> None:
    rows, waiting = [], []
    for axis, values in cells.items():
        for value, slugs in values.items():
            rows.append([axis, value, str(len(slugs)), f"podium train {slugs[0]}" if slugs else ""])
            if not slugs:
                waiting.append(f"{value} (for {catalogue.axes[axis][value]})")
    table(["axis", "kind", "methods", "for example"], rows)
    if waiting:
        line(f"Nothing yet: {', '.join(waiting)}.")
