"""Group 1: nothing depends on how the rows happen to be stored."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.gradient import UpdateResult, backward
from podium.core.memory import Memory
from podium.core.part import Columns, Shape
from podium.core.term import Term
from podium.core.updates import Updates
from podium.parts.objective.surrogate import PolicyGradient
from podium.testing.bench import Bench
from podium.testing.model import Bigram
from podium.testing.padding import with_padding
from podium.testing.subject import attempt, difference, rows, with_row_numbers
from podium.testing.synthetic import Scene, names, synthetic

__all__ = [
    "groups_may_have_any_numbers",
    "micro_batches_do_not_show",
    "padding_changes_nothing",
    "rows_may_stand_in_any_order",
]

TIES = Scene("everything equal", groups=(4, 3, 5), rewards="equal")
REPEATED = Scene("two groups of one task", groups=(4, 3, 5, 2), rewards="binary", repeats=True)


def _batches(part: Any, bench: Bench) -> list[tuple[Batch, Columns]]:
    results = [(batch, bench.attempt(part, place)) for place, batch in bench.accepted(part)]
    # Only to a memory does it matter that a task can be there twice.
    for scene in (TIES, REPEATED) if isinstance(part, Memory) else (TIES,):
        batch = bench.batch(part, scene)
        results.append((batch, attempt(part, batch)))
    return [(batch, result) for batch, result in results if not isinstance(result, PodiumError)]


# The settings of a part mostly share their batches, so that each change of a batch is made once.
@functools.lru_cache(maxsize=256)
def _shuffled(batch: Batch) -> Batch:
    order = torch.randperm(len(batch), generator=torch.Generator().manual_seed(1))
    return with_row_numbers(batch).take("rollout", order)


@functools.lru_cache(maxsize=256)
def _renumbered(batch: Batch) -> Batch:
    moved = with_row_numbers(batch).take("group", torch.arange(batch.size("group")).flip(0))
    return moved.take("rollout", torch.argsort(moved["rollout.row"]))  # the rows stand where they stood


@functools.lru_cache(maxsize=256)
def _padded(batch: Batch) -> Batch:
    return with_padding(with_row_numbers(batch), 3)


def _follows_the_batch(part: Any) -> bool:
    """An update plan that was asked not to shuffle goes by the order of the batch."""
    return isinstance(part, Updates) and not part.shuffle


def rows_may_stand_in_any_order(part: Any, bench: Bench) -> str | None:
    if _follows_the_batch(part):
        return None
    for batch, result in _batches(part, bench):
        moved = _shuffled(batch)
        gap = difference(result, attempt(part, moved), rows(moved))
        if gap:
            return f"depends on the order of the rows: {gap} (ties must break by rollout.index)"
    return None


def groups_may_have_any_numbers(part: Any, bench: Bench) -> str | None:
    if _follows_the_batch(part):
        return None
    for batch, result in _batches(part, bench):
        moved = _renumbered(batch)
        gap = difference(result, attempt(part, moved), rows(moved))
        if gap:
            return f"depends on how the groups are numbered: {gap}"
    return None


def padding_changes_nothing(part: Any, bench: Bench) -> str | None:
    for batch, result in _batches(part, bench):
        moved = _padded(batch)
        gap = difference(result, attempt(part, moved), rows(moved))
        if gap:
            return f"padding changes the result: {gap}"
    return None


def micro_batches_do_not_show(part: Any, bench: Bench) -> str | None:
    """The gradient at a small model's parameters, its loss and its diagnostics, for several splits of an update."""
    accepted = bench.accepted(part)
    for place, batch in [*accepted[:1], *accepted[1:][-1:]]:
        terms, live = [part], []
        if isinstance(part, Shape):
            if not part.live:
                return None
            terms, live = [_reader(part, bench.attempt(part, place))], [part]  # type: ignore[arg-type]
            wanted = names(part) | (names(*terms) - set(part.provides))
            batch = synthetic(place[0], wanted, place[1], bench.columns)
        whole, gradient = _step(terms, live, batch, None)
        for name, split in _splits(batch).items():
            step, other = _step(terms, live, batch, split)
            gap = _gap(whole, gradient, step, other)
            if gap:
                return f"shows how an update is split ({name}): {gap}"
    return None


def _reader(shape: Shape, result: Columns) -> Term:
    """A term on which what the shape writes can be seen."""
    masks = [name for name, x in result.items() if isinstance(x, Tensor) and x.dtype == torch.bool]
    return PolicyGradient(where=next((name for name in masks if ".keep" not in name), None))


def _splits(batch: Batch) -> dict[str, list[Tensor]]:
    n = len(batch)
    shuffled = torch.randperm(n, generator=torch.Generator().manual_seed(2))
    group = batch.link("rollout", "group")
    return {
        "three parts": list(shuffled.tensor_split(3)),
        "each rollout alone": list(torch.arange(n).tensor_split(n)),
        "whole groups": [(group == g).nonzero().reshape(-1) for g in range(batch.size("group"))],
    }


def _step(
    terms: list[Term], live: list[Shape], batch: Batch, split: list[Tensor] | None
) -> tuple[UpdateResult, Tensor]:
    model = Bigram()
    step = backward(terms, batch, model, split, live)
    return step, model.gradient()


def _gap(whole: UpdateResult, gradient: Tensor, step: UpdateResult, other: Tensor) -> str | None:
    gap = float((gradient - other).abs().max())
    if not gap <= 1e-10 * max(1.0, float(gradient.abs().max())):
        return f"the gradient differs by {gap:.2g}"
    numbers = {"loss": (whole.loss, step.loss)}
    numbers |= {k: (v, step.diagnostics.get(k, float("nan"))) for k, v in whole.diagnostics.items()}
    for name, (x, y) in numbers.items():
        if not abs(x - y) <= 1e-9 * max(1.0, abs(x)):
            return f"{name} is {y} instead of {x}"
    return None
