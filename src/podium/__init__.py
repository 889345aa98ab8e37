"""Podium: reinforcement-learning post-training of language models, as small composable parts."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

# Idle OpenMP threads should sleep: spinning ones slow a small model down tenfold on a machine that is also busy with
# something else. The policy must be set before torch starts its threads.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

if TYPE_CHECKING:
    from podium import memories, methods, strategies
    from podium.api import resume, train
    from podium.core import (
        Advantage,
        Annotate,
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
    from podium.labs.run_lab import lab
    from podium.method import Alternate, Method, Phases, Plateau, Reached, Role
    from podium.parts import advantage, annotate, keep, metric, objective, reward, select, shape, updates
    from podium.sessions.compare import compare
    from podium.sessions.evaluate import evaluate

__version__ = "0.1.0"

__all__ = [
    "Advantage",
    "Alternate",
    "Annotate",
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
    "annotate",
    "compare",
    "evaluate",
    "keep",
    "lab",
    "memories",
    "methods",
    "metric",
    "objective",
    "resume",
    "reward",
    "select",
    "shape",
    "strategies",
    "train",
    "updates",
]

# Everything is imported when it is first used, so that `import podium` and the command line start without torch.
_PACKAGES = {
    "memories": "podium.memories",
    "methods": "podium.methods",
    "strategies": "podium.strategies",
    **{
        stage: f"podium.parts.{stage}"
        for stage in ("advantage", "annotate", "keep", "metric", "objective", "reward", "select", "shape", "updates")
    },
}
_MODULE_OF = {
    **dict.fromkeys(("Alternate", "Method", "Phases", "Plateau", "Reached", "Role"), "podium.method"),
    "compare": "podium.sessions.compare",
    "evaluate": "podium.sessions.evaluate",
    "lab": "podium.labs",
    "resume": "podium.api",
    "train": "podium.api",
}


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(_PACKAGES[name])
    if name in __all__:
        return getattr(importlib.import_module(_MODULE_OF.get(name, "podium.core")), name)
    raise AttributeError(f"module 'podium' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
