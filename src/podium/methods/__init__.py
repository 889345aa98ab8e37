"""The methods: one recipe per file, `FAMILY/SLUG.py`, each a function whose defaults are the
structure of the authors' run.

`methods.get("dr-grpo")`, or `methods.dr_grpo(n=16)` with the recipe's arguments.
"""

from typing import Any

from podium.methods.catalogue import CATALOGUE, FAMILIES, RECIPES, Entry, Recipe, get, recipe
from podium.methods.combination import Combination, combine

__all__ = ["CATALOGUE", "FAMILIES", "RECIPES", "Combination", "Entry", "Recipe", "combine", "get", "recipe"]


def __getattr__(name: str) -> Any:
    slug = name.replace("_", "-")
    if slug in RECIPES:
        return RECIPES[slug].build
    raise AttributeError(f"There is no method {name!r} in podium.methods.")


def __dir__() -> list[str]:
    return [*__all__, *(slug.replace("-", "_") for slug in RECIPES)]
