"""Weights that are not finite are refused wherever weights are loaded or saved."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from podium.core.errors import PodiumError

__all__ = ["NonFiniteWeights", "check_finite"]


class NonFiniteWeights(PodiumError):
    """A model with a weight that is NaN or infinite."""


def check_finite(owner: str, tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Refuse tensors with an entry that is NaN or infinite, naming the first such tensor."""
    for name, tensor in tensors:
        if not tensor.is_floating_point() or not tensor.numel():
            continue
        # One pass without temporary tensors, a tenth of the time of `isfinite`: NaN passes through both.
        low, high = (float(x) for x in torch.aminmax(tensor.detach()))
        if not (math.isfinite(low) and math.isfinite(high)):
            kind = "NaN" if math.isnan(low) or math.isnan(high) else "infinite"
            raise NonFiniteWeights(f"{owner} has weights that are not finite: {name} holds {kind} entries.")
