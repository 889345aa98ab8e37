"""Turns that say whether they keep their plan: where in the text the decision, the subgoal and the action stand."""

from __future__ import annotations

import re
from collections.abc import Sequence

from podium.collect.annotations.registry import AnnotationContext, annotated, annotation
from podium.core.build import Rollout
from podium.protocols.world import Task

__all__ = ["plans"]

SPANS = {name: re.compile(rf"<{name}>(.*?)</{name}>", re.DOTALL) for name in ("switch", "subgoal", "action")}


@annotation(
    *("turn.switch", "turn.done", "token.plan_switch", "token.plan_subgoal", "token.plan_action", "token.plan_low"),
    world="turn.reward",
)
def plans(desk: AnnotationContext, task: Task, rollouts: list[Rollout]) -> list[Rollout]:
    """`<switch>KEEP</switch><subgoal>…</subgoal><action>…</action>` in each turn, as marks of its tokens.

    A turn that decides nothing keeps its subgoal; one without an action is all action. `token.plan_low` is the first
    token after the subgoal, from where the action is valued, or the last one of the turn.
    """
    found = []
    for rollout in rollouts:
        marks: dict[str, list[bool]] = {f"plan_{name}": [] for name in (*SPANS, "low")}
        views = []
        for turn in rollout.turns:
            text, ends = desk.policy.read(turn.ids, turn.columns.get("action"))
            spans = {name: pattern.search(text) for name, pattern in SPANS.items()}
            for name, span in spans.items():
                marks[f"plan_{name}"] += _inside(ends, span)
            if spans["action"] is None:
                marks["plan_action"][len(marks["plan_action"]) - len(ends) :] = [True] * len(ends)
            marks["plan_low"] += _after(ends, spans["subgoal"])
            said = spans["switch"]
            views.append({"switch": said is not None and said[1].strip().upper() == "SWITCH", "done": False})
        if views and not rollout.columns["truncated"]:
            views[-1]["done"] = True
        found.append(annotated(rollout, turns=views, tokens=marks))
    return found


def _inside(ends: Sequence[int], span: re.Match[str] | None) -> list[bool]:
    """Which tokens hold characters of the span."""
    starts = [0, *ends[:-1]]
    return [span is not None and s < span.end(1) and e > span.start(1) for s, e in zip(starts, ends, strict=True)]


def _after(ends: Sequence[int], span: re.Match[str] | None) -> list[bool]:
    """The first token that begins after the span, else the last one."""
    starts = [0, *ends[:-1]]
    places = [i for i, s in enumerate(starts) if span is not None and s >= span.end()]
    chosen = places[0] if places else len(ends) - 1
    return [i == chosen for i in range(len(ends))]
