"""Verdicts on the criteria of a task's rubric, as columns of its rollouts. The world decides them by rule, unless a
judge has decided them already."""

from __future__ import annotations

from podium.collect.annotations.registry import AnnotationContext, annotated, annotation
from podium.core.build import Rollout
from podium.protocols.world import Task

__all__ = ["rubric_verdicts"]


@annotation("rollout.points", "rollout.met", world="task.criteria")
def rubric_verdicts(context: AnnotationContext, task: Task, rollouts: list[Rollout]) -> list[Rollout]:
    """The points of each criterion of the task, and which criteria each rollout meets."""
    points = tuple(criterion.points for criterion in context.world.criteria(task))
    return [
        r
        if "met" in r.columns
        else annotated(r, {"points": points, "met": context.world.met(task, str(r.columns["text"]))})
        for r in rollouts
    ]
