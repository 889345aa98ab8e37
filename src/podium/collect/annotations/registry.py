"""Annotations: columns of rollouts that take words to make, such as a passage, a span, or another prompt.

The algorithm layer sees token ids alone. What must be read or written as text is done here, once, on the rollouts of
each group before they become a batch, and only if a part or a role of the method asks for one of the columns. To add
one:

    @annotation("rollout.shouts")
    def shouts(desk: Desk, task: Task, rollouts: list[Rollout]) -> list[Rollout]:
        return [annotated(r, {"shouts": r.columns["text"].isupper()}) for r in rollouts]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from typing import Any

from podium.core.build import Rollout
from podium.core.columns import COUNTS
from podium.core.signal import Signal
from podium.core.term import Term
from podium.method import Method
from podium.method.check import ANNOTATIONS
from podium.policy import Policy
from podium.policy.head.passage import passage_of
from podium.protocols.answer_text import ANSWER_MARK, answer_place
from podium.protocols.world import Task, World

__all__ = ["Annotation", "AnnotationContext", "annotated", "annotation", "annotations_of"]


@dataclass(frozen=True)
class AnnotationContext:
    """What an annotation works with: the words of the policy, and the world that the tasks come from."""

    policy: Policy
    world: World


Annotation = Callable[[AnnotationContext, Task, list[Rollout]], list[Rollout]]
_REGISTRY: dict[Annotation, tuple[str, ...]] = {}  # the columns that each annotation writes


def annotation(*columns: str, world: str | None = None) -> Callable[[Annotation], Annotation]:
    """Register an annotation by the columns that it writes; `world` names what the world must provide for it."""

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
        yield reader.where
    for need in reader.needs:
        passage = passage_of(need) if isinstance(need, Signal) else None
        yield f"{need.level}.{passage}.ids" if passage else need if isinstance(need, str) else None


def annotated(
    rollout: Rollout,
    columns: Mapping[str, Any] | None = None,
    turns: Sequence[Mapping[str, Any]] | None = None,
    tokens: Mapping[str, Sequence[float]] | None = None,
) -> Rollout:
    """The rollout with further columns: its own, those of each turn, and those of its tokens."""
    written = []
    for number, turn in enumerate(rollout.turns):
        own = turns[number] if turns else {}
        start = sum(len(t.ids) for t in rollout.turns[:number])
        here = {name: values[start : start + len(turn.ids)] for name, values in (tokens or {}).items()}
        written.append(dataclasses.replace(turn, columns={**turn.columns, **own}, tokens={**turn.tokens, **here}))
    return dataclasses.replace(rollout, turns=written, columns={**rollout.columns, **(columns or {})})


@annotation("turn.text", "token.end")
def words(desk: AnnotationContext, task: Task, rollouts: list[Rollout]) -> list[Rollout]:
    """The text of each turn, and where in it each token ends, in characters."""
    found = []
    for rollout in rollouts:
        read = [desk.policy.read(turn.ids, turn.columns.get("action")) for turn in rollout.turns]
        ends = list(chain.from_iterable(ends for _, ends in read))
        found.append(annotated(rollout, turns=[{"text": text} for text, _ in read], tokens={"end": ends}))
    return found


@annotation("token.reasoning", "rollout.answer.context", "rollout.answer.ids", world="task.solution")
def right_answer(desk: AnnotationContext, task: Task, rollouts: list[Rollout]) -> list[Rollout]:
    """The right answer as a passage after what each rollout wrote before its own answer, the reasoning.

    The passage begins after a fixed boundary, the mark of an answer, so its tokens are the same for all rollouts.
    """
    answer, end_ids = desk.policy.written(f" {desk.world.reference(task)}"), desk.policy.end_ids
    marked = cache(partial(desk.policy.written, ended=False))
    found = []
    for rollout in rollouts:
        last = rollout.turns[-1]
        text, ends = desk.policy.read(last.ids, last.columns.get("action"))
        place = answer_place(text)
        cut = len(text) if place is None else place
        reasoning = [end <= cut and i not in end_ids for end, i in zip(ends, last.ids, strict=True)]
        kept = tuple(last.ids)[: sum(reasoning)]
        written = text[: ends[len(kept) - 1]] if kept else ""
        boundary = marked(f"\n{ANSWER_MARK}" if written and not written.endswith("\n") else ANSWER_MARK)
        earlier = sum(len(turn.ids) for turn in rollout.turns[:-1])
        found.append(
            annotated(
                rollout,
                {"answer.context": (*last.context, *kept, *boundary), "answer.ids": answer},
                tokens={"reasoning": [True] * earlier + reasoning},
            )
        )
    return found


@annotation("turn.sibling.context", "rollout.sibling")
def sibling(desk: AnnotationContext, task: Task, rollouts: list[Rollout]) -> list[Rollout]:
    """The contexts of each rollout with another one's right solution in the prompt, where there is one.

    Without one, or where the context would get too long, the contexts are as they were.
    """
    right = [r for r in rollouts if r.columns["correct"] and r.columns["purpose"] in COUNTS]
    encoded = cache(lambda text: desk.policy.encode([{"role": "user", "content": text}]))
    prompt = encoded(task.prompt)
    found = []
    for rollout in rollouts:
        other = next((r for r in right if r is not rollout), None)
        shown = prompt
        if other is not None:
            help_ = f"{task.prompt}\nA solution that is right:\n{other.columns['text']}\nSolve it in your own words."
            shown = encoded(help_)
        contexts = [(*shown, *turn.context[len(prompt) :]) for turn in rollout.turns]
        lengths = [len(c) + len(turn.ids) for c, turn in zip(contexts, rollout.turns, strict=True)]
        fits = other is not None and max(lengths, default=0) <= desk.policy.context_length
        views = [{"sibling.context": c if fits else t.context} for c, t in zip(contexts, rollout.turns, strict=True)]
        found.append(annotated(rollout, {"sibling": fits}, views))
    return found
