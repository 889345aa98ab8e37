"""Passages of turns: the right answer after each observation, and actions after a masked observation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from podium.collect.annotations.registry import AnnotationContext, annotated, annotation
from podium.core.build import Rollout
from podium.policy.forward.pack import common_prefix
from podium.protocols.answer_text import ANSWER_MARK
from podium.protocols.world import Task

__all__ = ["PLACEHOLDER", "answer_after_turns", "masked_observation"]

PLACEHOLDER = "No information found."


@annotation("turn.answer.context", "turn.answer.ids", world="task.solution")
def answer_after_turns(context: AnnotationContext, task: Task, rollouts: list[Rollout]) -> list[Rollout]:
    """The right answer as a passage in place of each turn: how likely it is given what the model has seen so far."""
    boundary = context.policy.written(ANSWER_MARK, ended=False)
    answer = context.policy.written(f" {context.world.reference(task)}")
    limit = max(context.policy.context_length - len(boundary) - len(answer), 0)
    result = []
    for rollout in rollouts:
        # A context that does not fit loses its beginning: the observation is at the end.
        contexts = [(*tuple(turn.context)[-limit:], *boundary) for turn in rollout.turns]
        result.append(annotated(rollout, turns=[{"answer.context": c, "answer.ids": answer} for c in contexts]))
    return result


@annotation("turn.blind.context", "turn.blind.ids", "turn.informed", world="turn.reward")
def masked_observation(context: AnnotationContext, task: Task, rollouts: list[Rollout]) -> list[Rollout]:
    """Each turn as a passage after its context with a placeholder in place of the last observation.

    A turn is `informed` if there is such an observation: not the first turn, nor one whose context does not extend that
    of the turn before.
    """
    filler = context.policy.written(PLACEHOLDER, ended=False)
    result = []
    for rollout in rollouts:
        views = [
            {"blind.context": tuple(t.context), "blind.ids": tuple(t.ids), "informed": False} for t in rollout.turns
        ]
        for number, (before, after) in enumerate(pairwise(rollout.turns), start=1):
            earlier, tokens = (*before.context, *before.ids), tuple(after.context)
            if tokens[: len(earlier)] != earlier:
                continue
            ended = bool(before.ids) and before.ids[-1] in context.policy.end_ids
            start, stop = _observation_span(tokens[len(earlier) :], context.policy.follow_up("", ended))
            observation = tokens[len(earlier) + start : len(earlier) + stop]
            blank = (*filler, *filler[-1:] * len(observation))[: len(observation)]
            if observation and blank != observation:
                masked = (*tokens[: len(earlier) + start], *blank, *tokens[len(earlier) + stop :])
                views[number] |= {"blind.context": masked, "informed": True}
        result.append(annotated(rollout, turns=views))
    return result


def _observation_span(between: Sequence[int], frame: Sequence[int]) -> tuple[int, int]:
    """Where the observation is in the tokens between two turns; `frame`: the chat template's tokens around it."""
    start = common_prefix(between, frame)
    shared_end = common_prefix(between[::-1], frame[::-1])
    return start, len(between) - min(shared_end, len(frame) - start, len(between) - start)
