"""The keep stage: what is dropped before it is trained."""

from podium.keep.bundle import Bundle
from podium.keep.mixed import DropSolved, KeepMixed
from podium.keep.pivots import KeepPivots
from podium.keep.route import RouteBySuccess, RouteToTeacher
from podium.keep.truncated import DropTruncated
from podium.keep.within import KeepWithin

__all__ = [
    "Bundle",
    "DropSolved",
    "DropTruncated",
    "KeepMixed",
    "KeepPivots",
    "KeepWithin",
    "RouteBySuccess",
    "RouteToTeacher",
]
