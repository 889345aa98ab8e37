"""Merging a fine-tuned model back into its base model."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from podium.core.errors import PodiumError

__all__ = ["merge_largest", "merge_weights"]


def merge_largest(base: Tensor, tuned: Tensor, keep: float = 0.25, scale: float = 0.7) -> Tensor:
    """base + scale · delta for the largest updates, base elsewhere: DLER's update-selective merging.

    delta = tuned − base; the `keep` share of entries with the largest |delta| is merged, at least one. Among equal ones
    the first are taken.
    """
    if base.shape != tuned.shape:
        raise PodiumError(f"Weights of shapes {tuple(base.shape)} and {tuple(tuned.shape)} cannot be merged.")
    delta = (tuned - base).reshape(-1)
    size, count = delta.abs(), max(1, round(keep * delta.numel()))
    least = size.topk(count).values[-1]
    chosen = size > least
    equal = (size == least).nonzero().reshape(-1)
    chosen[equal[: count - int(chosen.sum())]] = True
    return base + scale * delta.where(chosen, 0).reshape(base.shape)


def merge_weights(
    base: Mapping[str, Tensor], tuned: Mapping[str, Tensor], keep: float = 0.25, scale: float = 0.7
) -> dict[str, Tensor]:
    """`merge_largest` for each tensor of two models of the same shape."""
    if base.keys() != tuned.keys():
        raise PodiumError(f"The models have different weights: {', '.join(sorted(base.keys() ^ tuned.keys()))}.")
    return {name: merge_largest(base[name], tuned[name], keep, scale) for name in base}
