"""Aranyani: soft oblique trees, and a parity penalty from running means that stores no data."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from podium.core.errors import PodiumError

__all__ = ["GroupAverages", "ParityPenalty", "huber_slope", "leaf_probabilities", "parity_penalty", "tree_output"]

FACTOR = 1e-8  # added to every factor of a leaf's probability, as in the authors' code
MODES = ("vanilla", "ema", "momentum")


def leaf_probabilities(decision: Tensor, depth: int) -> Tensor:
    """[..., leaf] products along the paths; `decision` [..., node], level by level, is the chance of the left child."""
    leaf, first = decision.new_ones(*decision.shape[:-1], 1), 0
    for level in range(depth):
        left = decision[..., first : first + 2**level]
        both = torch.stack([left + FACTOR, 1.0 - left + FACTOR], -1)
        leaf = (leaf[..., None] * both).flatten(-2)
        first += 2**level
    return leaf


def tree_output(x: Tensor, weight: Tensor, bias: Tensor, leaf: Tensor, depth: int) -> tuple[Tensor, Tensor, Tensor]:
    """Node decisions σ(x · w + b) with `weight` [feature, node], leaf probabilities, and the mix of the softmaxed
    leaves [leaf, class]."""
    decision = torch.sigmoid(x @ weight + bias)
    probability = leaf_probabilities(decision, depth)
    return decision, probability, probability @ leaf.softmax(-1)


def huber_slope(gap: Tensor, delta: float) -> Tensor:
    """F within δ and its sign outside. As in the authors' code it is not divided by δ, so it jumps there."""
    return torch.where(gap.abs() < delta, gap, gap.sign())


@dataclass(frozen=True)
class ParityPenalty:
    """λ · h′(F) · (ḡ₁ − ḡ₀) of every node."""

    gap: Tensor  # [node] F
    slope: Tensor  # [node] h′(F)
    gradient: Tensor  # [node, parameter]


def parity_penalty(
    mean: tuple[Tensor, Tensor], gradient: tuple[Tensor, Tensor], weight: float, delta: float = 0.01
) -> ParityPenalty:
    """From means [node] and mean gradients [node, parameter] of the groups 1 and 0, in this order."""
    gap = mean[0] - mean[1]
    slope = huber_slope(gap, delta)
    return ParityPenalty(gap, slope, weight * slope[..., None] * (gradient[0] - gradient[1]))


@dataclass
class GroupAverages:
    """Running means of a statistic and averages of its gradient in two groups."""

    mode: str = "vanilla"
    beta: float = 0.9
    counts: list[int] = field(default_factory=lambda: [0, 0])
    total: list[Tensor | None] = field(default_factory=lambda: [None, None])
    trace: list[Tensor | None] = field(default_factory=lambda: [None, None])

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise PodiumError(f"mode must be one of {', '.join(MODES)}, not {self.mode!r}.")

    def observe(self, group: int, statistic: Tensor, gradient: Tensor) -> None:
        """An item of a group: its statistic [node] and the gradient of it [node, parameter]."""
        self.counts[group] += 1
        t, total, trace = self.counts[group], self.total[group], self.trace[group]
        self.total[group] = statistic if total is None else total + statistic
        if trace is None:
            trace = torch.zeros_like(gradient)
        if self.mode == "vanilla":
            self.trace[group] = trace * (1.0 - 1.0 / t) + gradient / t
        else:
            self.trace[group] = self.beta * trace + gradient

    @property
    def ready(self) -> bool:
        """Whether both groups have been seen: until then the authors' code skips the update, task gradient and all."""
        return min(self.counts) > 0

    def mean(self, group: int) -> Tensor:
        """[node] the plain mean, whatever the mode."""
        total = self.total[group]
        assert total is not None
        return total / self.counts[group]

    def gradient(self, group: int) -> Tensor:
        """[node, parameter] the average of the gradients by the mode."""
        trace = self.trace[group]
        assert trace is not None
        if self.mode == "ema":
            return trace * (1.0 - self.beta) / (1.0 - self.beta ** self.counts[group])
        return trace

    def penalty(self, weight: float, delta: float = 0.01) -> ParityPenalty:
        """What to add to the gradient of the task."""
        means, gradients = (self.mean(1), self.mean(0)), (self.gradient(1), self.gradient(0))
        return parity_penalty(means, gradients, weight, delta)
