"""Adapters by slug."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

from tests.conformance.case import Case

__all__ = ["Adapter", "adapter", "adapters", "set_aside"]

# From a case to the library's value for each of its expected keys (and, if convenient, for others).
Adapter = Callable[[Case], Mapping[str, Any]]

_ADAPTERS: dict[str, Adapter] = {}
_ASIDE: dict[str, tuple[str, ...]] = {}


def adapter(slug: str, aside: tuple[str, ...] = ()) -> Callable[[Adapter], Adapter]:
    """Register a function as the adapter of a slug.

    `aside` names expected keys that are not compared, since no run computes them: means and sums of a case's inputs or
    of other keys. An adapter would have to compute them itself, which would say nothing of the library.
    """

    def register(function: Adapter) -> Adapter:
        if slug in _ADAPTERS:
            raise ValueError(f"{slug} has two adapters: {_ADAPTERS[slug].__module__} and {function.__module__}.")
        _ADAPTERS[slug] = function
        _ASIDE[slug] = aside
        return function

    return register


def adapters() -> Mapping[str, Adapter]:
    """All adapters: every module in `adapters/` is imported."""
    package = importlib.import_module("tests.conformance.adapters")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return _ADAPTERS


def set_aside() -> Mapping[str, tuple[str, ...]]:
    """By slug, the expected keys that no run computes."""
    return {slug: keys for slug, keys in _ASIDE.items() if keys}
