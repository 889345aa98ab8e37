"""Annotations: columns of rollouts that are made from text, such as a passage, a span, or another prompt.

The algorithm layer sees token ids alone. What must be read or written as text is done here, once, on the rollouts of
each group before they become a batch, and only if a part or a role of the method asks for one of the columns. To add
one:

    @annotation("rollout.shouts")
    def shouts(context: AnnotationContext, task: Task, rollouts: list[Rollout]) -> list[Rollout]:
        return [annotated(r, {"shouts": r.columns["text"].isupper()}) for r in rollouts]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from typing import Any

from podium.core.build import Rollout, Turn
from podium.core.columns import COUNTS
from podium.core.signal import Signal
from podium.core.term import Term
from podium.method import Method
from podium.method.check import ANNOTATIONS
from podium.policy import Policy
from podium.policy.head.passage import passage_of
from podium.protocols.answer_text import ANSWER_MARK, answer_place
from podium.protocols.scaffold import with_hint
from podium.protocols.world import Task, World

__all__ = ["Annotation", "AnnotationContext", "annotated", "annotation", "annotations_of"]


@dataclass(frozen=True)
class AnnotationContext:
    """What an annotation works with: the policy's tokenizer and chat template, and the world of the tasks."""

    policy: Policy
    world: World

    def read(self, turn: Turn) -> tuple[str, list[int]]:
        """The text of a turn, and the number of characters up to the end of each of its tokens."""
        # Without a format the text is the action, and need not be decoded again.
        return self.policy.read(turn.ids, None if "well_formed" in turn.columns else turn.columns.get("action"))


Annotation = Callable[[AnnotationContext, Task, list[Rollout]], list[Rollout]]
_REGISTRY: dict[Annotation, tuple[str, ...]] = {}  # the columns that each annotation writes


def annotation(*columns: str, world: str | None = None) -> Callable[[Annotation], Annotation]:
    """Register an annotation by the columns that it writes; `world` names what it needs of the world."""

    def register(function: Annotation) -> Annotation:
        _REGISTRY[function] = columns
        ANNOTATIONS.update(dict.fromkeys(columns, world))
        return function

    return register


def annotations_of(method: Method) -> list[Annotation]:
    """The annotations that a method relies on."""
    wanted = {role.context for role in method.roles}
    for leaf in method.leaves():
        wanted |= {column for reader in (*leaf.parts(), *leaf.memories) for column in _columns(reader)}
    return [function for function, columns in _REGISTRY.items() if wanted & set(columns)]


def _columns(reader: Any) -> Iterable[str | None]:
    if isinstance(reader, Term):
        yield from reader.routed
    for need in reader.needs:
        passage = passage_of(need) if isinstance(need, Signal) else None
        yield f"{need.level}.{passage}.ids" if passage else need if isinstance(need, str) else None


def annotated(
    rollout: Rollout,
    columns: Mapping[str, Any] | None = None,
    turns: Sequence[Mapping[str, Any]] | None = None,
    tokens: Mapping[str, Sequence[float]] | None = None,
) -> Rollout:
    """The rollout with further columns: of the rollout, of each turn, and of its tokens."""
    annotated_turns = []
    for number, turn in enumerate(rollout.turns):
        of_turn = turns[number] if turns else {}
        start = sum(len(t.ids) for t in rollout.turns[:number])
        of_tokens = {name: values[start : start + len(turn.ids)] for name, values in (tokens or {}).items()}
        annotated_turns.append(
            dataclasses.replace(turn, columns={**turn.columns, **of_turn}, tokens={**turn.tokens, **of_tokens})
        )
    return dataclasses.replace(rollout, turns=annotated_turns, columns={**rollout.columns, **(columns or {})})


@annotation("turn.text", "token.end")
def turn_texts(context: AnnotationContext, task: Task, rollouts: list[Rollout]) -> list[Rollout]:
    """The text of each turn, and the character of it at which each token ends."""
    result = []
    for rollout in rollouts:
        read = [context.read(turn) for turn in rollout.turns]
        ends = list(chain.from_iterable(ends for _, ends in read))
        result.append(annotated(rollout, turns=[{"text": text} for text, _ in read], tokens={"end": ends}))
    return result


@annotation("token.reasoning", "rollout.answer.context", "rollout.answer.ids", world="task.solution")
def right_answer(context: AnnotationContext, task: Task, rollouts: list[Rollout]) -> list[Rollout]:
    """The right answer as a passage after the reasoning of each rollout: what it wrote before its answer.

    The passage follows a fixed boundary, the answer mark, so that its tokens are the same for all rollouts.
    """
    answer, end_ids = context.policy.written(f" {context.world.reference(task)}"), context.policy.end_ids
    encode_mark = cache(partial(context.policy.written, ended=False))
    result = []
    for rollout in rollouts:
        last = rollout.turns[-1]
        text, ends = context.read(last)
        place = answer_place(text)
        cut = len(text) if place is None else place
        reasoning = [end <= cut and i not in end_ids for end, i in zip(ends, last.ids, strict=True)]
        kept = tuple(last.ids)[: sum(reasoning)]
        written = text[: ends[len(kept) - 1]] if kept else ""
        boundary = encode_mark(f"\n{ANSWER_MARK}" if written and not written.endswith("\n") else ANSWER_MARK)
        earlier = sum(len(turn.ids) for turn in rollout.turns[:-1])
        result.append(
            annotated(
                rollout,
                {"answer.context": (*last.context, *kept, *boundary), "answer.ids": answer},
                tokens={"reasoning": [True] * earlier + reasoning},
            )
        )
    return result


@annotation("turn.sibling.context", "rollout.sibling")
def sibling_contexts(context: AnnotationContext, task: Task, rollouts: list[Rollout]) -> list[Rollout]:
    """The contexts of each rollout with a correct solution of a sibling in the prompt, where there is one.

    Without one, or if a context would get too long, the contexts are as they were.
    """
    right = [r for r in rollouts if r.columns["correct"] and r.columns["purpose"] in COUNTS]
    others = [next((r for r in right if r is not rollout), None) for rollout in rollouts]
    shown = [None if other is None else with_hint(task.prompt, other.columns["text"]) for other in others]
    return _shown_instead(context, task, rollouts, "sibling", shown)


@annotation("turn.solution.context", "rollout.solution", world="task.solution")
def solution_contexts(context: AnnotationContext, task: Task, rollouts: list[Rollout]) -> list[Rollout]:
    """The contexts of each rollout with the world's solution in the prompt; as they were where they get too long."""
    shown = with_hint(task.prompt, context.world.solve(task))
    return _shown_instead(context, task, rollouts, "solution", [shown] * len(rollouts))


def _shown_instead(
    context: AnnotationContext, task: Task, rollouts: list[Rollout], name: str, prompts: Sequence[str | None]
) -> list[Rollout]:
    """Writes `turn.NAME.context` with other prompts than the task's, and `rollout.NAME`, whether there is one that
    fits."""
    encoded = cache(lambda text: context.policy.encode([{"role": "user", "content": text}]))
    prompt = encoded(task.prompt)
    result = []
    for rollout, text in zip(rollouts, prompts, strict=True):
        shown = prompt if text is None else encoded(text)
        contexts = [(*shown, *turn.context[len(prompt) :]) for turn in rollout.turns]
        lengths = [len(c) + len(turn.ids) for c, turn in zip(contexts, rollout.turns, strict=True)]
        fits = text is not None and max(lengths, default=0) <= context.policy.context_length
        views = [{f"{name}.context": c if fits else t.context} for c, t in zip(contexts, rollout.turns, strict=True)]
        result.append(annotated(rollout, {name: fits}, views))
    return result
