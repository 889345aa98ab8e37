"""Turns that the limit of tokens has cut off."""

from __future__ import annotations

from podium.collect.annotations.registry import AnnotationContext, annotated, annotation
from podium.core.build import Rollout
from podium.protocols.world import Task

__all__ = ["mark_cut_turns"]


@annotation("turn.truncated")
def mark_cut_turns(context: AnnotationContext, task: Task, rollouts: list[Rollout]) -> list[Rollout]:
    """`turn.truncated`: whether a turn does not end with a token that ends it."""
    ends = set(context.policy.end_ids)
    return [
        annotated(r, turns=[{"truncated": not turn.ids or turn.ids[-1] not in ends} for turn in r.turns])
        for r in rollouts
    ]
