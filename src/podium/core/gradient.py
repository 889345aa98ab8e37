"""Exact gradients of an objective, however an update is split into micro-batches.

Denominators, weights and live parts are fixed for the whole update first, and rollouts to which no term gives a
gradient (a coefficient of 0, an advantage of 0) are left out. If every micro-batch holds whole units of what the terms
couple, one pass is exact. Otherwise two: the signals of the whole update without a graph; the loss and its gradient
with respect to those vectors; then a forward per micro-batch that back-propagates these coefficients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from podium.core.activity import changed_elements, label
from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.part import Metric, Shape
from podium.core.ranks import ALONE, Ranks
from podium.core.signal import Signal
from podium.core.term import COUPLINGS, Term

__all__ = ["Forward", "HostedUpdate", "UpdateResult", "backward", "now_signals", "whole_groups"]

CLIPPED = ("clip_fraction", "overshot")  # diagnostics that say where a bound of the ratio is reached

# Computes signals of the current policy on a batch; their graph leads to the parameters where the signal asks for it.
# It may return more, such as the `old` signals of a first update: they are used as constants. The batch's columns
# `token.row`, `rollout.row`, … say which elements of the update it holds.
Forward = Callable[[Batch, Sequence[Signal]], Mapping[Signal, Tensor]]


@dataclass(frozen=True)
class UpdateResult:
    """The loss of an update and its diagnostics, after the backward pass."""

    loss: float
    terms: Mapping[str, float]
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    passes: int = 1  # forward passes of each rollout that has a gradient
    acted: Mapping[str, int] = field(default_factory=dict)  # by part: the elements that it changed or gave a gradient

    @classmethod
    def joined(cls, steps: Sequence[UpdateResult]) -> UpdateResult:
        """The result of an update of several learners."""
        terms: dict[str, float] = {}
        for name, value in (item for s in steps for item in s.terms.items()):
            terms[name] = terms.get(name, 0.0) + value
        watched = {name: value for s in steps for name, value in s.diagnostics.items()}
        acted: Counter[str] = Counter()
        for step in steps:
            acted.update(step.acted)
        return cls(sum(s.loss for s in steps), terms, watched, max((s.passes for s in steps), default=1), acted)


def now_signals(parts: Sequence[Term | Shape | Metric]) -> list[Signal]:
    """The signals of the current policy that these parts read, each once."""
    by_column: dict[str, Signal] = {}
    for part in parts:
        for need in part.needs:
            if isinstance(need, Signal) and need.of == "now" and (need.grad or need.column not in by_column):
                by_column[need.column] = need
    return list(by_column.values())


def whole_groups(batch: Batch, micro_batches: Sequence[Tensor]) -> bool:
    """Whether no group is split between micro-batches (each a vector of rollout numbers)."""
    owner = torch.empty(len(batch), dtype=torch.long, device=batch.device)
    for number, rows in enumerate(micro_batches):
        owner[rows] = number
    groups = batch.partition("rollout", "group").agg
    return bool((groups.min(owner) == groups.max(owner)).all())


def backward(
    terms: Sequence[Term],
    update: Batch,
    forward: Forward,
    micro_batches: Sequence[Tensor] | None = None,
    live: Sequence[Shape | Metric] = (),
    ranks: Ranks = ALONE,
) -> UpdateResult:
    """Accumulate the exact gradient of Σ terms into the parameters behind `forward`.

    With several ranks, which all have the whole update, each passes its share of the micro-batches through the model:
    the gradients that the ranks have then accumulated add up to that of the update.
    """
    splits = _splits(update, micro_batches)
    update = _numbered(update)
    unit = "update" if len(splits) == 1 else "group" if whole_groups(update, splits) else "rollout"
    coupled = any(COUPLINGS.index(t.couples) > COUPLINGS.index(unit) for t in terms)
    wanted = now_signals([*live, *terms] if coupled else live)
    watch = _Watch(terms)
    if live:
        # Parts that depend on the current policy are evaluated once, on detached signals of the whole update.
        update = update.with_columns(_gathered(update, forward, splits, wanted, ranks))
        for part in live:
            columns = part(update)
            if isinstance(part, Shape):
                watch.acted[label(part)] += changed_elements(update, columns)
            update = update.with_columns(columns)
    update = update.with_columns({_coefficient(i, t): t.coefficients(update) for i, t in enumerate(terms)})
    carrying = _carrying(terms, update)
    splits = _within(splits, carrying)
    if coupled and splits:
        if not live:
            update = update.with_columns(_gathered(update, forward, splits, wanted, ranks))
        slopes = _slopes(terms, update, carrying, watch)
        mine = ranks.share(_within(splits, _moving(slopes, update)))
        gaps = ranks.together(lambda: _second_pass(slopes, update, forward, mine))
        watch.gaps = [gap for of_rank in gaps for gap in of_rank]
    elif splits:
        mine = ranks.share(splits)
        ranks.together(lambda: _one_pass(terms, update, forward, mine, watch))
        watch.add_up(ranks)
    watch.report([part for part in live if isinstance(part, Metric)], update)
    return watch.step(passes=2 if live or coupled else 1)


class HostedUpdate:
    """An update whose passes through the model another trainer makes, in micro-batches of its own.

    `first_pass` names the signals of the whole update that it must compute, without a graph, before the first of them;
    `fix` takes them. Then `loss` is the loss of a micro-batch: the gradients of these losses add up to that of the
    update, however it is split and whoever computes which part.
    """

    def __init__(self, terms: Sequence[Term], update: Batch, live: Sequence[Shape | Metric] = ()) -> None:
        self.terms, self.live, self.update = terms, live, _numbered(update)
        self.coupled = any(COUPLINGS.index(t.couples) > COUPLINGS.index("rollout") for t in terms)
        self.signals = now_signals([*live, *terms])
        self.first_pass = self.signals if self.coupled else now_signals(live)
        self._watch, self._slopes = _Watch(terms), dict[Signal, Tensor]()

    def fix(self, now: Mapping[Signal, Tensor]) -> None:
        """Evaluate live parts, coefficients and, where terms couple several rollouts, the slopes of the loss."""
        update = self.update.with_columns(dict(now))
        for part in self.live:
            update = update.with_columns(part(update))
        update = update.with_columns({_coefficient(i, t): t.coefficients(update) for i, t in enumerate(self.terms)})
        if self.coupled:
            self._slopes = _slopes(self.terms, update, _carrying(self.terms, update), self._watch)
        self.update = update

    def loss(self, rows: Tensor, results: Mapping[Signal, Tensor]) -> Tensor:
        """The loss of these rollouts, from signals of them."""
        micro = self.update.take("rollout", rows)  # in the host's order
        if not self.coupled:
            values = {s: x if s.grad else x.detach() for s, x in results.items()}
            return self._watch.see(micro.with_columns(values)).sum()
        parts = [
            (slope[micro[f"{signal.level}.row"]] * results[signal]).sum() for signal, slope in self._slopes.items()
        ]
        return torch.stack(parts).sum() if parts else torch.zeros((), device=micro.device)

    def result(self) -> UpdateResult:
        """The loss and the diagnostics of what has been computed so far."""
        return self._watch.step(passes=2 if self.first_pass else 1)


def _numbered(update: Batch) -> Batch:
    """The update with columns that say which elements of it a micro-batch holds."""
    return update.with_columns({f"{x}.row": torch.arange(update.size(x), device=update.device) for x in update.levels})


def _splits(update: Batch, micro_batches: Sequence[Tensor] | None) -> list[Tensor]:
    if micro_batches is None:
        return [torch.arange(len(update), device=update.device)]
    splits = [rows for rows in micro_batches if len(rows)]
    times = torch.bincount(torch.cat(splits), minlength=len(update)) if splits else torch.zeros(len(update))
    if len(times) != len(update) or not bool((times == 1).all()):
        raise PodiumError(f"Micro-batches must hold each of the {len(update)} rollouts of the update exactly once.")
    return splits


def _coefficient(number: int, term: Term) -> str:
    """The column that holds a term's coefficients."""
    return f"{term.level}.coefficient.{number}"


def _carrying(terms: Sequence[Term], update: Batch) -> Tensor:
    """[rollout] whether any term has a nonzero loss in the rollout, or in the unit that the term couples around it."""
    carrying = torch.zeros(len(update), dtype=torch.bool, device=update.device)
    for number, term in enumerate(terms):
        unit = {"token": "rollout", "update": "batch"}.get(term.couples, term.couples)
        unit = unit if update.is_above(unit, term.level) else term.level
        nonzero = update[_coefficient(number, term)] != 0
        silent = term.silent(update)
        nonzero = nonzero if silent is None else nonzero & ~silent
        carrying |= update.spread(update.partition(term.level, unit).agg.any(nonzero), unit, "rollout")
    return carrying


def _within(splits: Sequence[Tensor], chosen: Tensor) -> list[Tensor]:
    """The micro-batches reduced to the chosen rollouts."""
    reduced = [rows[chosen[rows]] for rows in splits]
    return [rows for rows in reduced if len(rows)]


def _taken(update: Batch, rows: Tensor) -> Batch:
    return update if len(rows) == len(update) else update.take("rollout", rows)


def _gathered(
    update: Batch, forward: Forward, splits: Sequence[Tensor], signals: Sequence[Signal], ranks: Ranks
) -> dict[Signal, Tensor]:
    """The signals of the whole update, without a graph."""
    whole: dict[Signal, Tensor] = {}
    micro_batches = [update.take("rollout", rows) for rows in splits]
    with torch.no_grad():
        results = ranks.spread(micro_batches, lambda micro: forward(micro, signals))
    for micro, values in zip(micro_batches, results, strict=True):
        for signal, value in values.items():
            if signal not in whole:
                whole[signal] = torch.zeros(
                    (update.size(signal.level), *value.shape[1:]), dtype=value.dtype, device=update.device
                )
            whole[signal][micro[f"{signal.level}.row"]] = value.to(update.device)
    return whole


def _one_pass(terms: Sequence[Term], update: Batch, forward: Forward, splits: Sequence[Tensor], watch: _Watch) -> None:
    signals = now_signals(terms)
    for rows in splits:
        micro = _taken(update, rows)
        results = forward(micro, signals)
        values = watch.see(micro.with_columns({s: x if s.grad else x.detach() for s, x in results.items()}))
        watch.count(values, {s: x for s, x in results.items() if s.grad})
        if values.requires_grad:
            values.sum().backward()  # type: ignore[no-untyped-call]


def _slopes(terms: Sequence[Term], update: Batch, carrying: Tensor, watch: _Watch) -> dict[Signal, Tensor]:
    """The derivatives of the loss by the signals that `update` holds."""
    # Rollouts without a coefficient are not in the loss at all: their signals were never computed.
    leaves = {s: update[s].detach().requires_grad_() for s in now_signals(terms) if s.grad}
    chosen = carrying.nonzero().reshape(-1)
    values = watch.see(_taken(update.with_columns(leaves), chosen))
    watch.count(values, leaves)
    if not values.requires_grad:
        return {}
    slopes = torch.autograd.grad(values.sum(), list(leaves.values()), allow_unused=True)
    return {s: slope for s, slope in zip(leaves, slopes, strict=True) if slope is not None}


def _moving(slopes: Mapping[Signal, Tensor], update: Batch) -> Tensor:
    """[rollout] whether the loss has a derivative by any of its signals."""
    moving = torch.zeros(len(update), dtype=torch.bool, device=update.device)
    for signal, slope in slopes.items():
        moving |= update.partition(signal.level, "rollout").agg.any(slope != 0)
    return moving


def _second_pass(
    slopes: Mapping[Signal, Tensor], update: Batch, forward: Forward, splits: Sequence[Tensor]
) -> list[float]:
    """Back-propagate the slopes. Returns how far each signal is from the first pass: 0, unless the forward is not a
    function of its input."""
    gaps = []
    for rows in splits:
        micro = _taken(update, rows)
        results = forward(micro, list(slopes))
        parts = []
        for signal, slope in slopes.items():
            now = results[signal].detach()
            gaps.append(float((now - micro[signal]).abs().max()) if len(now) else 0.0)
            if results[signal].requires_grad:
                parts.append((slope[micro[f"{signal.level}.row"]] * results[signal]).sum())
        if parts:
            torch.stack(parts).sum().backward()  # type: ignore[no-untyped-call]
    return gaps


class _Watch:
    """Sums of the terms, and means of their diagnostics over the elements with a nonzero coefficient.

    Rollouts without a gradient are in no mean, so a clip fraction is one of the tokens that could be clipped.
    """

    def __init__(self, terms: Sequence[Term]) -> None:
        self.terms = terms
        self.totals = [0.0] * len(terms)
        self.sums: dict[str, tuple[float, int]] = {}
        self.gaps: list[float] = []
        self.acted: Counter[str] = Counter({label(term): 0 for term in terms})

    def see(self, batch: Batch) -> Tensor:
        """[term] the value of each term on a batch that holds whole units."""
        values = []
        for number, term in enumerate(self.terms):
            c = batch[_coefficient(number, term)]
            values.append(term.total(batch, c))
            self.totals[number] += float(values[-1].detach())
            with torch.no_grad():
                for name, value in term.diagnostics(batch).items():
                    total, count = self.sums.get(name, (0.0, 0))
                    members = value[c != 0]
                    self.sums[name] = (total + float(members.to(torch.float64).sum()), count + len(members))
        return torch.stack(values) if values else torch.zeros(0)

    def count(self, values: Tensor, signals: Mapping[Signal, Tensor]) -> None:
        """Count for each term the elements whose signals it gives a gradient other than 0."""
        moved = {s: x for s, x in signals.items() if x.requires_grad}
        for term, value in zip(self.terms, values.unbind(), strict=True):
            if not (value.requires_grad and moved):
                continue
            slopes = torch.autograd.grad(value, list(moved.values()), retain_graph=True, allow_unused=True)
            by_level: dict[str, Tensor] = {}
            for signal, slope in zip(moved, slopes, strict=True):
                if slope is not None:
                    given = slope.reshape(len(slope), -1).any(-1)
                    by_level[signal.level] = by_level[signal.level] | given if signal.level in by_level else given
            self.acted[label(term)] += sum(int(given.sum()) for given in by_level.values())

    def report(self, metrics: Sequence[Metric], update: Batch) -> None:
        """The means of metrics of the current policy, over the elements where they are finite.

        NaN says that a metric is not defined for an element; infinite values are counted.
        """
        for name in (name for part in metrics for name in part.provides):
            values, short = update[name].double(), name.partition(".")[2]
            finite = values[values.isfinite()]
            self.sums[short] = (float(finite.sum()), len(finite))
            if infinite := int(values.isinf().sum()):
                self.sums[f"not_finite.{short}"] = (float(infinite), 1)

    def add_up(self, ranks: Ranks) -> None:
        """Add what the ranks have seen of an update of which each had its own micro-batches."""
        if ranks.size == 1:
            return
        seen = ranks.gather((self.totals, self.sums, self.acted))
        self.totals = [sum(totals) for totals in zip(*(totals for totals, _, _ in seen), strict=True)]
        self.sums, self.acted = {}, Counter()
        for _, sums, acted in seen:
            for name, (total, count) in sums.items():
                before, counted = self.sums.get(name, (0.0, 0))
                self.sums[name] = (before + total, counted + count)
            self.acted.update(acted)

    def step(self, passes: int) -> UpdateResult:
        names: dict[str, float] = {}
        for term, total in zip(self.terms, self.totals, strict=True):
            name = type(term).__name__
            names[name] = names.get(name, 0.0) + total
        means = {name: total / max(count, 1) for name, (total, count) in self.sums.items()}
        if self.gaps:
            means["pass_gap"] = max(self.gaps)
        for name in CLIPPED:
            if name in self.sums:
                self.acted["objective.clip"] += round(self.sums[name][0])
        return UpdateResult(sum(self.totals), names, means, passes, self.acted)
