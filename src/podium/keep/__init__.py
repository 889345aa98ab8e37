"""The keep stage: what is dropped before it is trained."""

from podium.keep.bundle import Bundle
from podium.keep.marked import DropMarked
from podium.keep.mixed import DropSolved, KeepMixed
from podium.keep.pivots import KeepPivots
from podium.keep.replay import PriorityReplay, SuccessReplay
from podium.keep.route import (
    DuplicateHard,
    RejectGuided,
    RouteByOrigin,
    RouteBySuccess,
    RouteSoftly,
    RouteToTeacher,
)
from podium.keep.segments import WaitingSegments
from podium.keep.teachers import InjectTeachers
from podium.keep.transitions import Transitions
from podium.keep.truncated import DropTruncated
from podium.keep.varied import KeepVaried
from podium.keep.within import KeepWithin

__all__ = [
    "Bundle",
    "DropMarked",
    "DropSolved",
    "DropTruncated",
    "DuplicateHard",
    "InjectTeachers",
    "KeepMixed",
    "KeepPivots",
    "KeepVaried",
    "KeepWithin",
    "PriorityReplay",
    "RejectGuided",
    "RouteByOrigin",
    "RouteBySuccess",
    "RouteSoftly",
    "RouteToTeacher",
    "SuccessReplay",
    "Transitions",
    "WaitingSegments",
]
