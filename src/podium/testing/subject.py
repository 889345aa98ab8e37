"""What a part says about a batch, as columns: the common ground on which parts of every kind are compared."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.gradient import now_signals
from podium.core.identity import uniform
from podium.core.memory import Memory
from podium.core.part import Advantage, Annotate, Columns, Keep, Metric, Reward, Select, Shape
from podium.core.relation import Relation
from podium.core.signal import Signal
from podium.core.term import Term
from podium.core.updates import Updates

__all__ = ["COLUMN_PARTS", "attempt", "difference", "leaves", "with_row_numbers", "outcome", "rows"]

COLUMN_PARTS = (Annotate, Reward, Keep, Advantage, Shape, Metric)


def outcome(part: Any, batch: Batch) -> Columns:
    """The columns that stand for everything the part does with this batch."""
    if isinstance(part, Term):
        return _of_term(part, batch)
    if isinstance(part, Memory):
        return _of_memory(part, batch)
    if isinstance(part, Select):
        return {"group.drawn": part({need: batch[need] for need in part.needs})}  # type: ignore[misc]
    if isinstance(part, Updates):
        return _of_updates(part, batch)
    columns: Columns = {}
    for name, value in part(batch).items():
        columns |= _of_relation(name, value, batch) if isinstance(value, Relation) else {batch.name(name): value}
    return columns


def _of_relation(name: str, relation: Relation, batch: Batch) -> Columns:
    """What a relation says of each element, in whatever order its pairs stand: the sums of its columns over the pairs
    that it is in, each weighted by a number that stands for the other one."""
    other = uniform(batch.identity(relation.level), name, None, torch.float64)
    columns: Columns = {}
    for column, x in {"number": torch.ones_like(relation.left), **relation.columns}.items():
        for side, beside in (("left", relation.right), ("right", relation.left)):
            total = relation.sum(x.double() * other[beside], side, batch.size(relation.level))  # type: ignore[arg-type]
            columns[f"{relation.level}.{name}.{column}.{side}"] = total
    return columns


def attempt(part: Any, batch: Batch) -> Columns | PodiumError:
    """The outcome, or the reason for which the part refuses the batch."""
    try:
        return outcome(part, batch)
    except PodiumError as refusal:
        return refusal


def leaves(term: Term, batch: Batch) -> dict[Signal, Tensor]:
    """The signals of the current policy as variables to differentiate by."""
    return {signal: batch[signal].detach().clone().requires_grad_() for signal in now_signals([term])}


def _of_term(term: Term, batch: Batch) -> Columns:
    variables = leaves(term, batch)
    live = batch.with_columns(variables)
    value = term(live)
    with torch.no_grad():
        c = term.coefficients(live)
        loss = torch.where(c != 0, term.loss(live), torch.zeros_like(c))
    columns: Columns = {f"{term.level}.coefficient": c, f"{term.level}.loss": loss, "batch.total": value.detach()[None]}
    slopes: tuple[Tensor | None, ...] = (None,) * len(variables)
    if value.requires_grad:
        slopes = torch.autograd.grad(value, list(variables.values()), allow_unused=True)
    for (signal, x), slope in zip(variables.items(), slopes, strict=True):
        columns[f"{signal.column}.slope"] = torch.zeros_like(x) if slope is None else slope
    return columns


def _of_memory(memory: Memory, batch: Batch) -> Columns:
    tasks = batch["group.task"]
    columns: Columns = {}
    state = memory.initial()
    signals = [need for need in memory.needs if isinstance(need, Signal)]
    halved = batch.with_columns({s: batch[s] / 2 for s in signals})  # a policy that has moved
    identity = batch.identity("group")
    some = batch if len(identity) == 1 else batch.take("group", identity != identity.max())  # some tasks are not seen
    for time, seen in (("once", batch), ("twice", batch), ("moved", halved), ("fewer", some)):
        state = memory.observe(state, seen)
        columns |= {f"{name}.{time}": x for name, x in memory.recall(state, tasks).items()}
        scalars = memory.scalars(state)
        columns |= {f"batch.{name}.{time}": torch.tensor([x]) for name, x in scalars.items()}
        again = memory.replay(state, seen)
        if again is not None:  # how many come back, with what credit and weight
            credit = again["rollout.weight.replay"]
            credit = credit * again["rollout.advantage"] if "rollout.advantage" in again else credit
            columns[f"batch.replayed.{time}"] = torch.tensor([len(again), float(credit.sum())], dtype=torch.float64)[
                None
            ]
    return columns


def _of_updates(updates: Updates, batch: Batch) -> Columns:
    """[rollout] the number of the optimiser step that sees it, for each of its appearances; −1 where there is none.

    Where the plan reads advantages, also what it makes of them; and how much each rollout weighs in each step.
    """
    seen: list[list[int]] = [[] for _ in range(len(batch))]
    credit: dict[str, Tensor] = {}
    asked = itertools.count()

    def score(rows: Batch) -> Tensor:
        """A policy that has moved a little further each time it is asked."""
        return 0.3 * next(asked) * rows.position("token").to(rows.dtype).cos()

    for number, mini_batch in enumerate(updates(with_row_numbers(batch), score)):
        for row in mini_batch["rollout.row"].tolist():
            seen[row].append(number)
        if "token.advantage" in updates.needs:
            advantage = mini_batch.reduce(mini_batch["token.advantage"], "token", "rollout", "sum")
            credit[f"rollout.credit.{number}"] = (
                batch.length().new_zeros(len(batch)).index_copy(0, mini_batch["rollout.row"], advantage)
            )
        weight = mini_batch.weight("rollout")
        if weight is not None:
            rows = mini_batch["rollout.row"]
            credit[f"rollout.weighted.{number}"] = weight.new_zeros(len(batch)).index_copy(0, rows, weight)
    times = max(map(len, seen))
    padded = torch.tensor([steps + [-1] * (times - len(steps)) for steps in seen])
    return {f"rollout.appearance.{time}": padded[:, time] for time in range(times)} | credit


def with_row_numbers(batch: Batch) -> Batch:
    """The batch with the number of each element as a column, so that elements can be followed."""
    return batch.with_columns({f"{x}.row": torch.arange(batch.size(x), device=batch.device) for x in batch.levels})


def rows(batch: Batch) -> dict[str, Tensor]:
    """For each level the numbers that `with_row_numbers` gave to the elements; −1 at elements that are new."""
    return {level: batch[f"{level}.row"] for level in batch.levels}


def difference(
    old: Columns | PodiumError,
    new: Columns | PodiumError,
    moved: Mapping[str, Tensor] | None = None,
    tolerance: float = 1e-9,
) -> str | None:
    """Where `new` differs from `old`, in words. `moved` says which element of `old` each element of `new` is."""
    if isinstance(old, PodiumError) or isinstance(new, PodiumError):
        if isinstance(old, PodiumError) and isinstance(new, PodiumError):
            return None
        return f"one is refused: {old if isinstance(old, PodiumError) else new}"
    if set(old) != set(new):
        return f"columns {', '.join(sorted(set(old) ^ set(new)))} are in one result only"
    for name, x in old.items():
        gap = _column_difference(name, x, new[name], None if moved is None else moved[name.partition(".")[0]])
        if gap is not None and gap[1] > tolerance:
            return gap[0]
    return None


def _column_difference(name: str, x: Any, y: Any, moved: Tensor | None) -> tuple[str, float] | None:
    """The largest difference in words, and its size relative to the values."""
    level = name.partition(".")[0]
    present = None if moved is None else (moved >= 0).nonzero().reshape(-1)
    if not isinstance(x, Tensor) or not isinstance(y, Tensor):
        pairs = zip(x, y, strict=False) if present is None else ((x[int(moved[i])], y[i]) for i in present)  # type: ignore[index]
        unequal = [(a, b) for a, b in pairs if a != b]
        return (f"{name!r} is {unequal[0][1]!r} instead of {unequal[0][0]!r}", float("inf")) if unequal else None
    if moved is not None and present is not None:
        x, y = x[moved[present]], y[present]
    if x.shape != y.shape:
        return f"{name!r} has shape {tuple(y.shape)} instead of {tuple(x.shape)}", float("inf")
    if x.numel() == 0:
        return None
    a, b = x.detach().double(), y.detach().double()
    same = (a == b) | (a.isnan() & b.isnan())
    gap = torch.where(same, 0.0, (a - b).abs() / torch.maximum(a.abs(), b.abs()).clamp(min=1.0))
    gap = gap.nan_to_num(nan=float("inf")).reshape(len(x), -1).amax(1)
    worst = int(gap.argmax())
    if float(gap[worst]) == 0:
        return None
    element = worst if present is None or moved is None else int(moved[present[worst]])
    return f"{name!r} at {level} {element} is {y[worst].tolist()} instead of {x[worst].tolist()}", float(gap[worst])
