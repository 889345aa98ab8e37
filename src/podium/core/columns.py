"""Reserved names of columns: what they hold, and what follows from them."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from torch import Tensor

__all__ = ["BOOLEAN", "COUNTS", "ENUMS", "FINITE", "INHERITED", "TRAINS", "Column", "Origin", "Purpose"]

Column = Tensor | tuple[Any, ...]


class Origin(IntEnum):
    """Who wrote a token. Everything but `given` is an action that may be trained."""

    policy = 0
    given = 1  # an observation, a template: never trained
    hint = 2
    expert = 3
    copied = 4
    forced = 5


class Purpose(IntEnum):
    """Why a rollout was made: whether it counts in statistics and whether it is trained."""

    train = 0
    vote = 1  # counts, not trained
    baseline = 2  # neither: parts that want it read it by its purpose
    probe = 3  # only recorded
    demo = 4  # trained, does not count
    replaced = 5  # only recorded


COUNTS = (Purpose.train, Purpose.vote)
TRAINS = (Purpose.train, Purpose.demo)
ENUMS: dict[str, type[IntEnum]] = {"token.origin": Origin, "rollout.purpose": Purpose}
# A column with one of these words in its name holds finite floating-point numbers, or True and False.
FINITE = {"reward", "logp", "advantage", "weight", "value", "entropy", "return"}
BOOLEAN = {"keep"}
# These mean the same at every level, so a finer level inherits them from the nearest coarser one that has them.
INHERITED = ("advantage",)
