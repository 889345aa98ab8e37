"""Exact gradients of an objective, however an update is split into micro-batches.

Denominators, weights and live parts are fixed for the whole update first. If every micro-batch holds whole units of
what the terms couple, one pass is exact. Otherwise two: the signals of the whole update without a graph; the loss and
its gradient with respect to those vectors; then a forward per micro-batch that back-propagates these coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.part import Shape
from podium.core.signal import Signal
from podium.objective.term import COUPLINGS, Term

__all__ = ["Forward", "Step", "backward", "now_signals", "whole_groups"]

# Computes signals of the current policy on a batch; their graph leads to the parameters where the signal asks for it.
Forward = Callable[[Batch, Sequence[Signal]], Mapping[Signal, Tensor]]


@dataclass(frozen=True)
class Step:
    """What came of an update's backward pass."""

    loss: float
    terms: Mapping[str, float]
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    passes: int = 1


def now_signals(parts: Sequence[Term | Shape]) -> list[Signal]:
    """The signals of the current policy that these parts read, each once."""
    found: dict[str, Signal] = {}
    for part in parts:
        for need in part.needs:
            if isinstance(need, Signal) and need.of == "now":
                known = found.get(need.column)
                found[need.column] = need if known is None or need.grad else known
    return list(found.values())


def whole_groups(batch: Batch, micro_batches: Sequence[Tensor]) -> bool:
    """Whether no group is split between micro-batches (each a vector of rollout numbers)."""
    owner = torch.empty(len(batch), dtype=torch.long, device=batch.device)
    for number, rows in enumerate(micro_batches):
        owner[rows] = number
    groups = batch.partition("rollout", "group").agg
    return bool((groups.min(owner.double()) == groups.max(owner.double())).all())


def backward(
    terms: Sequence[Term],
    update: Batch,
    forward: Forward,
    micro_batches: Sequence[Tensor] | None = None,
    live: Sequence[Shape] = (),
) -> Step:
    """Accumulate the exact gradient of Σ terms into the parameters behind `forward`."""
    splits = [torch.arange(len(update), device=update.device)] if micro_batches is None else list(micro_batches)
    signals = now_signals(terms)
    update = _with_rows(update)
    if live:
        update = _settle(update, forward, splits, live)
    unit = "update" if len(splits) == 1 else "group" if whole_groups(update, splits) else "rollout"
    if all(COUPLINGS.index(t.couples) <= COUPLINGS.index(unit) for t in terms):
        return _one_pass(terms, update, forward, splits, signals)
    return _two_passes(terms, update, forward, splits, signals)


def _with_rows(update: Batch) -> Batch:
    """Number the elements, so that a micro-batch's values can be put back in their place."""
    numbers = {f"{level}.row": torch.arange(update.size(level), device=update.device) for level in update.levels}
    return update.with_columns(numbers)


def _gather(
    update: Batch, forward: Forward, splits: Sequence[Tensor], signals: Sequence[Signal]
) -> dict[Signal, Tensor]:
    """The signals of the whole update, without a graph."""
    whole: dict[Signal, Tensor] = {}
    with torch.no_grad():
        for rows in splits:
            micro = update.take("rollout", rows)
            for signal, value in forward(micro, signals).items():
                if signal not in whole:
                    whole[signal] = value.new_zeros((update.size(signal.level), *value.shape[1:]))
                whole[signal][micro[f"{signal.level}.row"]] = value
    return whole


def _settle(update: Batch, forward: Forward, splits: Sequence[Tensor], live: Sequence[Shape]) -> Batch:
    """Evaluate the live parts once, on detached signals of the whole update."""
    signals = now_signals(live)
    update = update.with_columns(_gather(update, forward, splits, signals))
    for part in live:
        update = update.with_columns(part(update))
    return update.without(signals)


def _one_pass(
    terms: Sequence[Term], update: Batch, forward: Forward, splits: Sequence[Tensor], signals: Sequence[Signal]
) -> Step:
    fixed = {f"{t.level}.coefficient.{i}": t.coefficients(update) for i, t in enumerate(terms)}
    watch = _Watch(terms, update)
    update = update.with_columns(fixed | watch.members)
    totals = [0.0] * len(terms)
    for rows in splits:
        micro = update.take("rollout", rows)
        micro = micro.with_columns(forward(micro, signals))
        loss: Tensor | float = 0.0
        for i, term in enumerate(terms):
            c = micro[f"{term.level}.coefficient.{i}"]
            part = torch.where(c != 0, c * term.loss(micro), torch.zeros_like(c)).sum()
            totals[i] += float(part.detach())
            loss = loss + part
        if isinstance(loss, Tensor) and loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        watch.see(micro)
    return _step(terms, totals, watch, 1)


def _two_passes(
    terms: Sequence[Term], update: Batch, forward: Forward, splits: Sequence[Tensor], signals: Sequence[Signal]
) -> Step:
    leaves = {s: x.requires_grad_() for s, x in _gather(update, forward, splits, signals).items()}
    whole = update.with_columns(leaves)
    values = [term(whole) for term in terms]
    gradients = torch.autograd.grad(torch.stack(values).sum(), list(leaves.values()), allow_unused=True)
    slopes = {s: g for s, g in zip(leaves, gradients, strict=True) if g is not None}
    for rows in splits:
        micro = update.take("rollout", rows)
        results = forward(micro, list(slopes))
        parts = [(slopes[s][micro[f"{s.level}.row"]] * x).sum() for s, x in results.items() if x.requires_grad]
        if parts:
            torch.stack(parts).sum().backward()  # type: ignore[no-untyped-call]
    watch = _Watch(terms, whole)
    watch.see(whole.with_columns(watch.members))
    return _step(terms, [float(v.detach()) for v in values], watch, 2)


class _Watch:
    """Means of the terms' diagnostics over their members."""

    def __init__(self, terms: Sequence[Term], update: Batch) -> None:
        self.terms = terms
        # Membership may depend on a whole group, so it is settled on the update, not on each micro-batch.
        self.members = {f"{t.level}.member.{i}": t.members(update) for i, t in enumerate(terms)}
        self.sums: dict[str, float] = {}

    def see(self, batch: Batch) -> None:
        with torch.no_grad():
            for term, (column, everyone) in zip(self.terms, self.members.items(), strict=True):
                members, count = batch[column], int(everyone.sum())
                for name, value in term.diagnostics(batch).items():
                    total = float(value[members].to(torch.float64).sum()) / max(count, 1)
                    self.sums[name] = self.sums.get(name, 0.0) + total


def _step(terms: Sequence[Term], totals: Sequence[float], watch: _Watch, passes: int) -> Step:
    names: dict[str, float] = {}
    for term, total in zip(terms, totals, strict=True):
        name = type(term).__name__
        names[name] = names.get(name, 0.0) + total
    return Step(sum(totals), names, watch.sums, passes)
