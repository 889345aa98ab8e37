"""TODO parts.keep"""

from podium.parts.keep.bundle import Bundle
from podium.parts.keep.filters import (
    DropMarked,
    DropSolved,
    DropTruncated,
    KeepMixed,
    KeepPivots,
    KeepVaried,
    KeepWithin,
)
from podium.parts.keep.measuring import DropMeasuring
from podium.parts.keep.route import (
    DuplicateHard,
    RejectGuided,
    RouteByOrigin,
    RouteBySuccess,
    RouteSoftly,
    RouteToTeacher,
)
from podium.parts.keep.teachers import InjectTeachers

__all__ = [
    "Bundle",
    "DropMarked",
    "DropMeasuring",
    "DropSolved",
    "DropTruncated",
    "DuplicateHard",
    "InjectTeachers",
    "KeepMixed",
    "KeepPivots",
    "KeepVaried",
    "KeepWithin",
    "RejectGuided",
    "RouteByOrigin",
    "RouteBySuccess",
    "RouteSoftly",
    "RouteToTeacher",
]
