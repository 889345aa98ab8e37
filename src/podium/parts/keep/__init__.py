"""Keep: what is trained, and with which loss.

A keep part reads rewards and other columns. It writes boolean columns `LEVEL.keep` or `LEVEL.keep.NAME`, which take
rows out of the loss where they are False, or columns by which terms of the objective choose their rows
(`rollout.imitated`, `token.foreign`, …). Filters with `top_up` make the loop sample more groups in place of those
that were dropped.
"""

from podium.parts.keep.best_of import KeepBest
from podium.parts.keep.bundle import Bundle
from podium.parts.keep.extremes import KeepExtremes
from podium.parts.keep.filters import (
    DropMarked,
    DropSolved,
    DropTruncated,
    KeepMixed,
    KeepPivots,
    KeepVaried,
    KeepWithin,
)
from podium.parts.keep.measuring import DropMeasuring, MeasureOnly
from podium.parts.keep.route import (
    DuplicateHard,
    RejectGuided,
    RouteByOrigin,
    RouteBySuccess,
    RouteSoftly,
    RouteToTeacher,
)
from podium.parts.keep.teachers import InjectTeachers
from podium.parts.keep.void_turns import DropVoidTurns
from podium.parts.keep.weak_strong import KeepWeakStrong

__all__ = [
    "Bundle",
    "DropMarked",
    "DropMeasuring",
    "DropSolved",
    "DropTruncated",
    "DropVoidTurns",
    "DuplicateHard",
    "InjectTeachers",
    "KeepBest",
    "KeepExtremes",
    "KeepMixed",
    "KeepPivots",
    "KeepVaried",
    "KeepWeakStrong",
    "KeepWithin",
    "MeasureOnly",
    "RejectGuided",
    "RouteByOrigin",
    "RouteBySuccess",
    "RouteSoftly",
    "RouteToTeacher",
]
