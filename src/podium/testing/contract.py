"""Group 6: a part reads what it declares, writes what it declares, and ties together what it declares."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.memory import Memory
from podium.core.part import Select
from podium.core.relation import Relation
from podium.core.term import COUPLINGS, Term
from podium.core.updates import Updates
from podium.testing.bench import Bench
from podium.testing.padding import garbage
from podium.testing.recorder import RecordingDict, recording
from podium.testing.synthetic import Scene

__all__ = ["needs_are_what_is_read", "provides_are_what_is_returned", "couples_what_it_says"]

# In every batch from its construction on: reading them may be declared, but need not be.
ALWAYS = {"group.task", "rollout.index"}
SMALL = (
    Scene("small", groups=(3, 2, 2), turns=2),
    Scene("small, binary rewards", groups=(3, 3, 2), rewards="binary", turns=2),
)


def needs_are_what_is_read(part: Any, bench: Bench) -> str | None:
    read: set[str] = set()
    declared: set[str] = set()
    for place in bench.places():
        batch = bench.batch(part, *place)
        declared = {batch.name(need) for need in part.needs}
        routed = {batch.name(name) for name in part.routed} if isinstance(part, Term) else set()
        log: set[str] = set()
        try:
            _read(part, batch, log)
        except PodiumError as refusal:
            unknown = sorted(log - declared - routed - ALWAYS)
            if unknown:
                return f"reads {unknown[0]!r}, which is not in its needs ({refusal})"
            continue
        read |= log - routed
    extra, unread = read - declared - ALWAYS, declared - read
    if extra:
        return f"reads {', '.join(map(repr, sorted(extra)))} without declaring it in its needs"
    if unread and read:
        return f"declares the need {', '.join(map(repr, sorted(unread)))}, but never reads it"
    return None


def _read(part: Any, batch: Batch, log: set[str]) -> None:
    """Let the part read everything that it would."""
    recorder = recording(batch, log)
    if isinstance(part, Term):
        part(recorder)
        part.diagnostics(recorder)
    elif isinstance(part, Memory):
        part.observe(part.initial(), recorder)
    elif isinstance(part, Select):
        part(RecordingDict({batch.name(n): batch[n] for n in part.needs}, log))
    elif isinstance(part, Updates):
        list(part(recorder))
    else:
        part(recorder)


def provides_are_what_is_returned(part: Any, bench: Bench) -> str | None:
    for _, batch in bench.accepted(part):
        if isinstance(part, Memory):
            state = part.observe(part.initial(), batch)
            result = part.recall(state, batch["group.task"])
        else:
            result = part(batch)
        promised = {batch.name(p) for p in part.provides}
        given = {n for p, x in result.items() for n in (x.names(p) if isinstance(x, Relation) else (batch.name(p),))}
        if promised != given:
            only = sorted(promised - given) or sorted(given - promised)
            how = "promises" if promised - given else "returns"
            other = "does not return" if promised - given else "does not declare in its provides"
            return f"{how} {', '.join(map(repr, only))}, which it {other}"
        for name, x in ((name, x) for name, x in result.items() if not isinstance(x, Relation)):
            level = batch.name(name).partition(".")[0]
            if len(x) != batch.size(level):
                return f"{name!r} has {len(x)} values for {batch.size(level)} {level}s"
    return None


def couples_what_it_says(part: Term, bench: Bench) -> str | None:
    if part.couples not in COUPLINGS:
        return f"couples {part.couples!r}, which is not one of {', '.join(COUPLINGS)}"
    couplings: list[str] = []
    for scene in SMALL:
        try:
            couplings += _felt(part, bench.batch(part, scene))
        except PodiumError:
            continue
    if not couplings:  # a coefficient of 0, say
        return None
    widest = max(couplings, key=COUPLINGS.index)
    if COUPLINGS.index(widest) > COUPLINGS.index(part.couples):
        return f"declares that it couples {part.couples!r}, but a change shows across the {widest}"
    if COUPLINGS.index(widest) < COUPLINGS.index(part.couples):
        return f"declares that it couples {part.couples!r}, but no change shows beyond the {widest}"
    return None


def _felt(part: Term, batch: Batch) -> list[str]:
    """How far each change of one token's, one rollout's or one group's columns is felt, where it is felt at all."""
    coupled = []
    with torch.no_grad():
        members = part.members(batch)
        base = part.loss(batch)
        for level in ("token", "rollout", "group"):
            columns = _numbers(part, batch, level)
            for element in range(batch.size(level) if columns else 0):
                here = torch.arange(batch.size(level)) == element
                changed = {
                    name: torch.where(here.view(-1, *[1] * (x.dim() - 1)), _other(name, x), x)
                    for name, x in columns.items()
                }
                felt = members & (part.loss(batch.with_columns(changed)) != base)
                if bool(felt.any()):
                    coupled.append(_reach(part, batch, level, element, felt))
    return coupled


def _numbers(part: Term, batch: Batch, level: str) -> dict[str, Tensor]:
    full = [batch.name(need) for need in part.needs]
    columns = {name: batch[name] for name in full if name.startswith(f"{level}.")}
    return {name: x for name, x in columns.items() if isinstance(x, Tensor) and x.is_floating_point()}


def _other(name: str, x: Tensor) -> Tensor:
    """A success becomes a failure; any other number moves a little, each column by another step."""
    return 1 - x if name.endswith(".reward") else x + garbage(name) / 100


def _reach(part: Term, batch: Batch, level: str, element: int, felt: Tensor) -> str:
    """The smallest unit that holds the changed element and all values of the loss that feel it."""
    if level == "token" == part.level and not bool(felt[torch.arange(felt.numel()) != element].any()):
        return "token"
    for unit in ("rollout", "group"):
        inside = batch.is_above(unit, level) and batch.is_above(unit, part.level)
        if inside and bool((batch.link(part.level, unit)[felt] == batch.link(level, unit)[element]).all()):
            # What a rollout's own column does to its tokens ties nothing together.
            return "token" if unit == level else unit
    return "update"
