"""The pure core: batch, partitions, signals, parts, methods, schedules, memories."""

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Origin, Purpose
from podium.core.errors import PodiumError, one_of, within
from podium.core.gradient import backward
from podium.core.memory import Memory, State, Table
from podium.core.normalize import Normalizer
from podium.core.part import (
    Advantage,
    Annotate,
    Keep,
    Metric,
    Part,
    Probe,
    Reward,
    Select,
    Shape,
    Strategy,
    stop_gradient,
)
from podium.core.partition import Partition
from podium.core.relation import Relation
from podium.core.schedule import (
    Cosine,
    Exponential,
    Follow,
    Linear,
    Power,
    Restarts,
    Schedule,
    Sigmoid,
    Steps,
    TwoPhases,
)
from podium.core.signal import Signal
from podium.core.term import Aggregate, Term
from podium.core.updates import Updates
from podium.core.value import Clock, Value

__all__ = [
    "Advantage",
    "Aggregate",
    "Annotate",
    "Batch",
    "Clock",
    "Cosine",
    "Exponential",
    "Follow",
    "Keep",
    "Linear",
    "Memory",
    "Metric",
    "Normalizer",
    "Origin",
    "Part",
    "Partition",
    "PodiumError",
    "Power",
    "Probe",
    "Purpose",
    "Relation",
    "Restarts",
    "Reward",
    "Rollout",
    "Schedule",
    "Select",
    "Shape",
    "Sigmoid",
    "Signal",
    "State",
    "Steps",
    "Strategy",
    "Table",
    "Term",
    "Turn",
    "TwoPhases",
    "Updates",
    "Value",
    "backward",
    "one_of",
    "stop_gradient",
    "within",
]
