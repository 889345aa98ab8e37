"""How much an answer has in common with the right one."""

from __future__ import annotations

from podium.collect.annotations.registry import AnnotationContext, annotated, annotation
from podium.core.build import Rollout
from podium.protocols.answer_text import word_f1
from podium.protocols.world import Task

__all__ = ["score_answers"]


@annotation("rollout.answer_f1", world="task.solution")
def score_answers(context: AnnotationContext, task: Task, rollouts: list[Rollout]) -> list[Rollout]:
    """The F1 score of the words of each rollout's answer and of the right one."""
    right = context.world.reference(task)
    return [annotated(r, {"answer_f1": word_f1(str(r.columns["answer"]), right)}) for r in rollouts]
