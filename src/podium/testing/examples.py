"""Settings to start from: of our parts where the defaults show too little, and of a user's `examples()`."""

from __future__ import annotations

import dataclasses
from typing import Any

__all__ = ["EXAMPLES", "examples_of"]


# By name of the class; the settings of a part beside its defaults.
EXAMPLES: dict[str, tuple[dict[str, Any], ...]] = {
    "Overlong": ({"max_length": 6, "buffer": 4},),  # the rollouts of synthetic batches are short
    "Whiten": ({"level": "rollout", "key": ("group",)},),  # so that there are cells of one, and constant ones
    "Updates": ({"epochs": 2, "mini_batches": 3},),
}


def examples_of(cls: type) -> list[Any]:
    """The defaults, where there are defaults for everything, and the known examples of a part's class."""
    own = getattr(cls, "examples", None)
    found = list(own()) if callable(own) else []
    required = [
        f.name
        for f in dataclasses.fields(cls)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    if not required:
        found.insert(0, cls())
    return [*found, *(cls(**settings) for settings in EXAMPLES.get(cls.__name__, ()))]
