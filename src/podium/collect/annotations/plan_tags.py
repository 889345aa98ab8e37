"""Tags of hierarchical plans: where in a turn the decision to switch, the subgoal and the action are."""

from __future__ import annotations

from collections.abc import Sequence

from podium.collect.annotations.registry import AnnotationContext, annotated, annotation
from podium.core.build import Rollout
from podium.protocols.answer_text import enclosed
from podium.protocols.world import Task

__all__ = ["mark_plan_tags", "mark_reworded"]

TAGS = ("switch", "subgoal", "action")
Span = tuple[int, int]


@annotation(
    *(
        "turn.switch",
        "turn.done",
        "turn.reworded",
        "token.plan_switch",
        "token.plan_subgoal",
        "token.plan_action",
        "token.plan_low",
    ),
    world="turn.reward",
)
def mark_plan_tags(context: AnnotationContext, task: Task, rollouts: list[Rollout]) -> list[Rollout]:
    """`<switch>KEEP</switch><subgoal>…</subgoal><action>…</action>` in each turn, as marks of its tokens.

    A turn without a switch tag keeps its subgoal; one without an action tag is all action. `token.plan_low` is the
    first token after the subgoal, where the value of the low level is read, or the last one of the turn.
    """
    result = []
    for rollout in rollouts:
        marks: dict[str, list[bool]] = {f"plan_{name}": [] for name in (*TAGS, "low")}
        views = []
        for turn in rollout.turns:
            text, ends = context.read(turn)
            spans = {name: enclosed(text, f"<{name}>", f"</{name}>") for name in TAGS}
            for name, span in spans.items():
                marks[f"plan_{name}"] += _inside(ends, span)
            if spans["action"] is None:
                marks["plan_action"][len(marks["plan_action"]) - len(ends) :] = [True] * len(ends)
            subgoal, decision = spans["subgoal"], spans["switch"]
            marks["plan_low"] += _after(ends, subgoal and subgoal[1] + len("</subgoal>"))
            switched = _switches(text, decision)
            views.append({"switch": switched, "done": False})
        if views and not rollout.columns["truncated"]:
            views[-1]["done"] = True
        result.append(annotated(rollout, turns=views, tokens=marks))
    return result


@annotation("turn.reworded", world="turn.reward")
def mark_reworded(context: AnnotationContext, task: Task, rollouts: list[Rollout]) -> list[Rollout]:
    """Whether a turn keeps its subgoal in other words than the turn before, where both have one."""
    result = []
    for rollout in rollouts:
        views, before = [], None
        for turn in rollout.turns:
            text, _ = context.read(turn)
            span = enclosed(text, "<subgoal>", "</subgoal>")
            goal = None if span is None else text[slice(*span)].strip()
            kept = not _switches(text, enclosed(text, "<switch>", "</switch>"))
            views.append({"reworded": kept and None not in (goal, before) and goal != before})
            before = goal
        result.append(annotated(rollout, turns=views))
    return result


def _switches(text: str, decision: Span | None) -> bool:
    return decision is not None and text[slice(*decision)].strip().upper() == "SWITCH"


def _inside(ends: Sequence[int], span: Span | None) -> list[bool]:
    """Which tokens hold characters of the span."""
    starts = [0, *ends[:-1]]
    return [span is not None and s < span[1] and e > span[0] for s, e in zip(starts, ends, strict=True)]


def _after(ends: Sequence[int], place: int | None) -> list[bool]:
    """The first token that begins at a place or after it, else the last one."""
    starts = [0, *ends[:-1]]
    places = [i for i, s in enumerate(starts) if place is not None and s >= place]
    chosen = places[0] if places else len(ends) - 1
    return [i == chosen for i in range(len(ends))]
