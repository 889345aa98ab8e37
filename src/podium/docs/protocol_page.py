"""The table of all methods: how their authors trained them, how `podium train SLUG` does, and why these differ."""

from __future__ import annotations

from podium.docs.protocol_text import ENDLESS, NOT_GIVEN, home_text, protocol_rows
from podium.methods.catalogue import FAMILIES, RECIPES, Recipe

__all__ = ["protocol_page"]

# Why a setting differs from the published one, by its name.
REASONS = {
    "optimiser steps per batch": "as many as a small batch can be split into, and enough for importance ratios to move",
    "rollouts per task": "of the size that a run at home can afford, and that gives groups of unequal rewards",
    "temperature": "the small model is trained at 1",
    "warm-up": "the same share of a shorter run",
    "distinct tasks": "what is remembered of a task counts only if the task comes back",
}
UNKNOWN = "Podium's default, where the authors' is not known"
INTRODUCTION = """
Of each method: the run of its authors, which `SLUG@paper` repeats; in what plain `SLUG` differs; and why. What is not
in the third column is as published. The page of a method says where the published numbers come from.
`podium methods show SLUG` prints the same for one method.

What holds for all of them is written here once. The model is podium/tiny, which trains on a CPU. The learning rate
follows from the size of the model and the number of updates per batch. Tasks and iterations are those of the method's
home, where a run takes under a minute, and lengths and turns those of its world. Worlds write tasks without end, unless
a method must meet them again. A setting that the authors do not give has Podium's default.
""".strip()
SHARED = ("model", "learning rate", "tasks per iteration", "iterations", "tokens per turn", "turns")


def protocol_page() -> str:
    """The table, by family."""
    sections = ["# How the methods are trained", INTRODUCTION]
    for family, meaning in FAMILIES.items():
        rows = [_row(recipe) for recipe in RECIPES.values() if recipe.family == family]
        if rows:
            head = "| method | as published | by default | why |\n| --- | --- | --- | --- |"
            sections.append("\n".join((f"## {family}\n\n{meaning}.\n", head, *rows)))
    return "\n\n".join(sections) + "\n"


def _row(recipe: Recipe) -> str:
    rows = protocol_rows(recipe)
    known = [f"{name}: {published}" for name, published, _ in rows if published != NOT_GIVEN]
    changes, reasons = [f"home: {home_text(recipe)}"], list[str]()
    for name, published, default in rows:
        if name not in SHARED and default not in (published, NOT_GIVEN, ENDLESS):
            changes.append(f"{name}: {default}")
            reasons.append(UNKNOWN if published == NOT_GIVEN else REASONS.get(name, "the scale of the run"))
    cells = (
        f"[{recipe.slug}]({recipe.slug}.md)",
        "; ".join(known) or "the authors give no run of their own",
        "; ".join(changes),
        "; ".join(dict.fromkeys(reasons)) or "as said above",
    )
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
