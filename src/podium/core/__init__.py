"""The pure core: batch, partitions, signals, parts, terms, schedules and memories; no model, file or network.

Everything is imported when it is first used, so that `podium.core.errors` can be read without torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from podium.core.batch import Batch
    from podium.core.build import Rollout, Turn
    from podium.core.columns import Origin, Purpose
    from podium.core.errors import PodiumError
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
    "stop_gradient",
]

# The module of each name, in the order of the imports above.
_MODULE_OF = {
    "Batch": "batch",
    **dict.fromkeys(("Rollout", "Turn"), "build"),
    **dict.fromkeys(("Origin", "Purpose"), "columns"),
    "PodiumError": "errors",
    **dict.fromkeys(("Memory", "State", "Table"), "memory"),
    "Normalizer": "normalize",
    **dict.fromkeys(("Advantage", "Annotate", "Keep", "Metric", "Part", "Probe", "Reward"), "part"),
    **dict.fromkeys(("Select", "Shape", "Strategy", "stop_gradient"), "part"),
    "Partition": "partition",
    "Relation": "relation",
    **dict.fromkeys(("Cosine", "Exponential", "Follow", "Linear", "Power"), "schedule"),
    **dict.fromkeys(("Restarts", "Schedule", "Sigmoid", "Steps", "TwoPhases"), "schedule"),
    "Signal": "signal",
    "backward": "gradient",
    **dict.fromkeys(("Aggregate", "Term"), "term"),
    "Updates": "updates",
    **dict.fromkeys(("Clock", "Value"), "value"),
}


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(importlib.import_module(f"podium.core.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module 'podium.core' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
