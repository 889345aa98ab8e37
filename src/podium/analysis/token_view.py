"""The X-ray of recorded rollouts as data: one JSON value that the terminal, the live page and the report all draw.

    {"run", "iteration", "methods": [name, …], "groups": [{"task", "prompt", "flat", "rollouts": [
        {"reward", "correct", "stop", "tokens": [text, …], "logp": […], "entropy": […],
         "turns": [{"start", "end", "action", "observation", "agent", "reward", "valid"}, …],
         "nodes": [{"key", "start", "end", "value"}, …],
         "methods": {name: {"credit": […], "push": […], "ratio": […], "turns": [mean credit, …],
                            "parts": {part: […]}, "terms": {term: […]}, "rewards": {part: number}}}}]}]}

A rollout that a method drops has no entry in its `methods`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from podium.analysis.recorded_batch import ROW
from podium.analysis.token_effects import Effects
from podium.core.batch import Batch

__all__ = ["method_view", "recorded_effects", "rollout_view", "token_groups"]

Row = Mapping[str, Any]
Read = Callable[[Sequence[int]], Sequence[str]]  # the text of each of some tokens
DIGITS = 5  # that are kept of a number
VALUES = ("node.value", "node.worth")  # what a method says a node is worth


def token_groups(rows: Sequence[Row], methods: Mapping[str, Sequence[dict[str, Any] | None]], read: Read) -> list[Any]:
    """The groups of an iteration, with their rollouts; `methods` holds the view of each method by row."""
    groups: dict[Any, dict[str, Any]] = {}
    for number, row in enumerate(rows):
        group = groups.setdefault(
            row["group"], {"task": str(row["task"]), "prompt": str(row["prompt"]), "rollouts": [], "flat": False}
        )
        shown = rollout_view(row, read)
        shown["methods"] = {name: views[number] for name, views in methods.items() if views[number] is not None}
        group["rollouts"].append(shown)
    for group in groups.values():
        group["flat"] = len({rollout["reward"] for rollout in group["rollouts"]}) == 1
    return list(groups.values())


def rollout_view(row: Row, read: Read) -> dict[str, Any]:
    """A recorded rollout: its tokens as text, with what was recorded of them, its turns and its nodes."""
    ids, ends = row["token.id"], [0, *accumulate(row["turn.length"])]
    nothing = [None] * len(row["turn.length"])
    turns = {name: row.get(f"turn.{name}") or nothing for name in ("action", "observation", "agent", "reward", "valid")}
    return {
        "index": row.get("index"),
        "reward": row["reward"],
        "correct": bool(row["correct"]),
        "stop": row["stop"],
        "text": row["text"],
        "tokens": [text for a, b in pairwise(ends) for text in read(ids[a:b])],
        "logp": short(row.get("token.old.logp") or row.get("token.sampler.logp")),
        "entropy": short(row.get("token.sampler.entropy")),
        "turns": [
            {"start": a, "end": b, **{name: values[number] for name, values in turns.items()}}
            for number, (a, b) in enumerate(pairwise(ends))
        ],
        "nodes": _nodes(row),
    }


def _nodes(row: Row) -> list[dict[str, Any]]:
    """The segments of a rollout that others of its group may share; none where nothing branched."""
    if not row.get("node.length"):
        return []
    ends = [0, *accumulate(row["node.length"])]
    worth = next((row[name] for name in VALUES if row.get(name)), [None] * len(row["node.length"]))
    keys = [str(key) for key in row["node.key"]]
    return [
        {"key": key, "start": a, "end": b, "value": value}
        for key, (a, b), value in zip(keys, pairwise(ends), worth, strict=True)
    ]


def recorded_effects(row: Row) -> dict[str, Any]:
    """What the run's own method did to a rollout, as far as it was recorded, in the form of `method_view`."""
    credit = row.get("token.advantage") or [0.0] * len(row["token.id"])
    old, sampled = row.get("token.old.logp"), row.get("token.sampler.logp")
    ratio = None
    if old and sampled:
        ratio = short(torch.tensor(old).sub(torch.tensor(sampled)).exp().tolist())
    return {
        "credit": short(credit),
        "push": None,
        "ratio": ratio,
        "turns": _per_turn(credit, [True] * len(credit), row["turn.length"]),
        "parts": {},
        "terms": {},
        "rewards": {},
    }


def method_view(effects: Effects, batch: Batch, rows: Sequence[Row]) -> list[dict[str, Any] | None]:
    """By row, what a method does to a rollout; None: it drops it."""
    lengths = batch.partition("token", "rollout").lengths().tolist()
    ends = [0, *accumulate(lengths)]
    views: list[dict[str, Any] | None] = [None] * len(rows)
    push = effects.push
    for place, number in enumerate(batch[ROW].long().tolist()):
        span = slice(ends[place], ends[place + 1])

        def cut(values: Tensor, span: slice = span) -> Any:
            return short(values[span].tolist())

        views[number] = {
            "credit": cut(effects.credit),
            "push": cut(push),
            "ratio": cut(effects.ratio),
            "logp": cut(effects.logp),
            "turns": _per_turn(
                effects.credit[span].tolist(), effects.trained[span].tolist(), rows[number]["turn.length"]
            ),
            "parts": {name: cut(change) for name, change in effects.trail.changes.items()},
            "terms": {name: cut(values) for name, values in effects.pushes.items()},
            "rewards": {name: short([float(x[place])])[0] for name, x in effects.trail.rewards.items()},
        }
    return views


def _per_turn(credit: Sequence[float], trained: Sequence[bool], lengths: Sequence[int]) -> list[float | None]:
    """The mean credit of the trained tokens of each turn; None: none is trained."""
    ends = [0, *accumulate(lengths)]
    chosen = [[c for c, t in zip(credit[a:b], trained[a:b], strict=True) if t] for a, b in pairwise(ends)]
    return [short([sum(values) / len(values)])[0] if values else None for values in chosen]


def short(values: Sequence[float] | None) -> Any:
    """Numbers with a few digits, which JSON holds in a third of the space; what is not finite becomes null."""
    if values is None:
        return None
    return [float(f"{v:.{DIGITS}g}") if abs(v) < float("inf") else None for v in values]
