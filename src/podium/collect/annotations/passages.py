"""Passages of turns: the right answer after each observation, and actions after an observation that says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from podium.collect.annotations.registry import AnnotationContext, annotated, annotation
from podium.core.build import Rollout
from podium.protocols.answer_text import ANSWER_MARK
from podium.protocols.world import Task

__all__ = ["PLACEHOLDER", "answer_after_turns", "blind"]

PLACEHOLDER = "No information found."


@annotation("turn.answer.context", "turn.answer.ids", world="task.solution")
def answer_after_turns(desk: AnnotationContext, task: Task, rollouts: list[Rollout]) -> list[Rollout]:
    """The right answer as a passage in place of each turn: what the model would make of what it has seen so far."""
    boundary = desk.policy.written(ANSWER_MARK, ended=False)
    answer = desk.policy.written(f" {desk.world.reference(task)}")
    room = max(desk.policy.context_length - len(boundary) - len(answer), 0)
    found = []
    for rollout in rollouts:
        # What would not fit loses its beginning: the observation is at the end.
        contexts = [(*tuple(turn.context)[-room:], *boundary) for turn in rollout.turns]
        found.append(annotated(rollout, turns=[{"answer.context": c, "answer.ids": answer} for c in contexts]))
    return found


@annotation("turn.blind.context", "turn.blind.ids", "turn.informed", world="turn.reward")
def blind(desk: AnnotationContext, task: Task, rollouts: list[Rollout]) -> list[Rollout]:
    """Each turn as a passage after its context, in which a placeholder stands for the last observation.

    A turn is `informed` where there is one: not the first, nor one whose context does not continue the one before.
    """
    filler = desk.policy.written(PLACEHOLDER, ended=False)
    found = []
    for rollout in rollouts:
        views = [
            {"blind.context": tuple(t.context), "blind.ids": tuple(t.ids), "informed": False} for t in rollout.turns
        ]
        for number, (before, after) in enumerate(pairwise(rollout.turns), start=1):
            known, context = (*before.context, *before.ids), tuple(after.context)
            if context[: len(known)] != known:
                continue
            ended = bool(before.ids) and before.ids[-1] in desk.policy.end_ids
            start, stop = _inside(context[len(known) :], desk.policy.follow_up("", ended))
            said = context[len(known) + start : len(known) + stop]
            blank = (*filler, *filler[-1:] * len(said))[: len(said)]
            if said and blank != said:
                changed = (*context[: len(known) + start], *blank, *context[len(known) + stop :])
                views[number] |= {"blind.context": changed, "informed": True}
        found.append(annotated(rollout, turns=views))
    return found


def _inside(between: Sequence[int], frame: Sequence[int]) -> tuple[int, int]:
    """Where the observation stands in what the world wrote between two turns: inside the template's own tokens."""
    start = _alike(between, frame)
    return start, len(between) - min(_alike(between[::-1], frame[::-1]), len(frame) - start, len(between) - start)


def _alike(left: Sequence[int], right: Sequence[int]) -> int:
    """How many tokens two texts begin with in common."""
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
