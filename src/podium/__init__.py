"""Podium: reinforcement-learning post-training of language models, as small parts with a known meaning."""

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

__version__ = "0.1.0"

__all__ = [
    "Advantage",
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
    "PodiumError",
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
    "keep",
    "methods",
    "objective",
    "reward",
    "rollout",
    "select",
    "shape",
]
