"""Verdicts on the criteria of a task, as columns of its rollouts. Worlds judge by rule; a judge may stand here too."""

from __future__ import annotations

from podium.collect.annotations.registry import AnnotationContext, annotated, annotation
from podium.core.build import Rollout
from podium.protocols.world import Task

__all__ = ["verdicts"]


@annotation("rollout.points", "rollout.met", world="task.criteria")
def verdicts(desk: AnnotationContext, task: Task, rollouts: list[Rollout]) -> list[Rollout]:
    """What each criterion of the task is worth, and which of them each rollout meets."""
    points = tuple(criterion.points for criterion in desk.world.criteria(task))
    return [annotated(r, {"points": points, "met": desk.world.met(task, str(r.columns["text"]))}) for r in rollouts]
