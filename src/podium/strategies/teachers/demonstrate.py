"""Demonstrations alone: the world's own solutions as rollouts. Nothing is sampled."""

from __future__ import annotations

from podium.core.columns import Purpose
from podium.core.errors import PodiumError
from podium.core.part import Need, Strategy
from podium.strategies.requests import Plan, Recite, TaskRequest, Wave, rollouts_of

__all__ = ["Demonstrate"]


class Demonstrate(Strategy):
    """The world's solutions of a task, one in each of the given styles, as rollouts to imitate."""

    styles: tuple[str, ...] = ("short",)  # of the world's solutions, at least one

    needs: tuple[Need, ...] = ("task.solution",)
    provides = ("rollout.purpose", "rollout.demonstration", "rollout.sampled")

    def __post_init__(self) -> None:
        if not self.styles:
            raise PodiumError("Demonstrate.styles is empty: name at least one style of solutions, such as 'short'.")

    @property
    def n(self) -> int:
        """Rollouts of each task."""
        return len(self.styles)

    def plan(self, task: TaskRequest) -> Plan:
        marks = {"demonstration": True, "sampled": False}
        wave: Wave = [
            Recite(task, style=style, purpose=Purpose.demo, index=i, columns=dict(marks))
            for i, style in enumerate(self.styles)
        ]
        return rollouts_of((yield wave))
