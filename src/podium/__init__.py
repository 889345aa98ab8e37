"""Podium: reinforcement-learning post-training of language models, as small parts with a known meaning."""

from __future__ import annotations

import os
from typing import Any

# Threads that wait should sleep: spinning ones make a model this small ten times slower on a machine that also does
# something else. It must be said before torch starts its threads.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from podium import advantage, keep, methods, objective, reward, rollout, select, shape
from podium.core import (
    Advantage,
    Batch,
    Clock,
    Cosine,
    Follow,
    Keep,
    Linear,
    Memory,
    Metric,
    Part,
    PodiumError,
    Reward,
    Rollout,
    Select,
    Shape,
    Signal,
    Steps,
    Strategy,
    Turn,
)
from podium.core.method import Method, Role
from podium.core.phases import Alternate, Phases
from podium.core.until import Plateau, Reached

__version__ = "0.1.0"

__all__ = [
    "Advantage",
    "Alternate",
    "Batch",
    "Clock",
    "Cosine",
    "Follow",
    "Keep",
    "Linear",
    "Memory",
    "Method",
    "Metric",
    "Part",
    "Phases",
    "Plateau",
    "PodiumError",
    "Reached",
    "Reward",
    "Role",
    "Rollout",
    "Select",
    "Shape",
    "Signal",
    "Steps",
    "Strategy",
    "Turn",
    "advantage",
    "compare",
    "evaluate",
    "keep",
    "lab",
    "methods",
    "objective",
    "resume",
    "reward",
    "rollout",
    "select",
    "shape",
    "train",
]

# The system layer is imported when it is first used: the algorithm layer needs torch alone.
_LATER = {
    "train": "podium.training.session",
    "resume": "podium.training.session",
    "evaluate": "podium.evaluation.session",
    "compare": "podium.training.compare",
    "lab": "podium.labs",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        import importlib

        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'podium' has no attribute {name!r}")
