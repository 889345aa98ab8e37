"""Group 2: what is not trained gets no gradient, and what a method holds fixed carries none."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.columns import Purpose
from podium.core.errors import PodiumError
from podium.core.signal import Signal
from podium.core.term import Term
from podium.testing.bench import Bench
from podium.testing.padding import garbage
from podium.testing.subject import COLUMN_PARTS, attempt, difference, leaves, outcome, rows, with_row_numbers
from podium.testing.synthetic import names

__all__ = [
    "dropped_rollouts_leave_no_trace",
    "held_values_carry_no_gradient",
    "recorded_rollouts_leave_no_trace",
    "untrained_tokens_get_no_gradient",
]


def untrained_tokens_get_no_gradient(part: Term, bench: Bench) -> str | None:
    for _, batch in bench.accepted(part):
        trained = batch.trained("token")
        spoilt = batch.with_columns(_spoilt(part, batch, trained))
        result = attempt(part, spoilt)
        if isinstance(result, PodiumError):
            return f"refuses a batch for what stands at tokens that are not trained: {result}"
        for name, slope in result.items():
            if name.endswith(".slope"):
                outside = ~batch.trained(name.partition(".")[0])
                steep = slope.abs().reshape(len(slope), -1).sum(1)  # of a wide signal, all its numbers
                if bool((steep[outside] != 0).any()):
                    place = int((outside & (steep != 0)).nonzero()[0])
                    return f"gradient {float(steep[place]):.3g} at token {place}, which is not trained"
        gap = difference(outcome(part, batch), result)
        if gap:
            return f"what stands at tokens that are not trained changes the result: {gap}"
    return None


def _spoilt(part: Any, batch: Batch, trained: Tensor) -> dict[str, Tensor]:
    """The columns that the part reads, with garbage at tokens that are not trained."""
    spoiled = {}
    for name in names(part):
        x = batch.get(name)
        if name.startswith("token.") and isinstance(x, Tensor) and x.is_floating_point():
            spoiled[name] = torch.where(trained.view(-1, *[1] * (x.dim() - 1)), x, torch.full_like(x, garbage(name)))
    return spoiled


def dropped_rollouts_leave_no_trace(part: Term, bench: Bench) -> str | None:
    """A rollout whose `keep` is False is in no numerator and no denominator."""
    for _, batch in bench.accepted(part):
        keep = torch.arange(len(batch)) % 3 != 0
        dropped, gone = batch.with_columns({"rollout.keep.test": keep}), batch.take("rollout", keep)
        results = [attempt(part, b) for b in (gone, dropped)]
        totals = [r if isinstance(r, PodiumError) else {"batch.total": r["batch.total"]} for r in results]
        gap = difference(totals[0], totals[1])
        if gap:
            return f"a rollout that is not kept still counts: {gap}"
    return None


def recorded_rollouts_leave_no_trace(part: Any, bench: Bench) -> str | None:
    """A rollout that neither counts nor is trained might as well not be there, unless the part says who does."""
    if "rollout.purpose" in part.provides:
        return None
    for place, batch in bench.accepted(part):
        if not place[0].purposes:
            continue
        rest = with_row_numbers(batch).take("rollout", batch["rollout.purpose"] != Purpose.probe)
        gap = difference(bench.attempt(part, place), attempt(part, rest), rows(rest))
        if gap:
            return f"a rollout that is only recorded has an influence: without those {gap}"
    return None


def held_values_carry_no_gradient(part: Any, bench: Bench) -> str | None:
    for _, batch in bench.accepted(part):
        if isinstance(part, Term):
            variables = leaves(part, batch)
            live = batch.with_columns(variables)
            if part.coefficients(live).requires_grad:
                return "its coefficients carry a gradient: denominators and weights are fixed over an update"
            fixed = {s: x for s, x in variables.items() if not s.grad}
            if fixed and any(g is not None and bool((g != 0).any()) for g in _slopes(part(live), fixed)):
                return f"a gradient flows through {', '.join(s.column for s in fixed)}, declared without grad=True"
        elif isinstance(part, COLUMN_PARTS):
            signals = [n for n in part.needs if isinstance(n, Signal) and n.of == "now" and not n.grad]
            live = batch.with_columns({s: batch[s].clone().requires_grad_() for s in signals})
            for name, x in outcome(part, live).items():
                if isinstance(x, Tensor) and x.requires_grad:
                    return f"a gradient flows through {name!r}: wrap what it is made of in stop_gradient"
    return None


def _slopes(value: Tensor, by: dict[Signal, Tensor]) -> tuple[Tensor | None, ...]:
    if not value.requires_grad:
        return ()
    return torch.autograd.grad(value, list(by.values()), allow_unused=True)
