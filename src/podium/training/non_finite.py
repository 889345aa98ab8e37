"""Why an update came to a gradient that is not finite, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from podium.core.batch import Batch
from podium.core.term import Term

__all__ = ["LARGE", "cause"]

LARGE = 1e6  # rewards and advantages beyond this are the likeliest cause; below it, a learning rate that is too high


def cause(update: Batch, terms: Sequence[Term], losses: Mapping[str, float]) -> str:
    """The terms whose loss is not finite, how large rewards and advantages are, and what to do."""
    overflows = {type(term).__name__: term.overflows for term in terms}
    sentences = [
        f"the loss of {name} is {loss}" + (f" ({overflows[name]})" if overflows.get(name) else "")
        for name, loss in losses.items()
        if not math.isfinite(loss)
    ]
    columns = {"rewards": "rollout.reward", "advantages": "token.advantage"}
    sizes = {name: _largest(update, column) for name, column in columns.items()}
    large = [f"{name} reach {size:.0e}" for name, size in sizes.items() if size > LARGE]
    remedy = "scale the rewards" if large else "lower the learning rate"
    return f"{', '.join([*sentences, ' and '.join(large)] if large else sentences)}: {remedy}.".removeprefix(": ")


def _largest(update: Batch, column: str) -> float:
    values = update.get(column)
    return float(values.abs().max()) if isinstance(values, Tensor) and values.numel() else 0.0
