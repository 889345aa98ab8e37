"""Two objectives on disjoint parameters: a small module lowers a disparity while the rest follows the task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from podium.core.errors import PodiumError

__all__ = ["AlternatingStep", "alternating_step", "coded_parity_loss", "gated_logistic", "max_pair_loss"]


def max_pair_loss(output: Tensor, attribute: Tensor) -> tuple[Tensor, tuple[int, int] | None]:
    """The largest squared difference of group means, and the pair of groups that has it, the first on ties. With one
    group the loss is 0."""
    names = sorted(set(attribute.tolist()))
    means = {name: output[attribute == name].mean() for name in names}
    best, pair = output.sum() * 0.0, None
    for i, j in combinations(names, 2):
        difference = (means[i] - means[j]) ** 2
        if pair is None or difference > best:
            best, pair = difference, (i, j)
    return best, pair


def coded_parity_loss(
    output: Tensor, attribute: Tensor, classes: Sequence[int], weight: float, reduction: str = "sum"
) -> tuple[Tensor, Tensor, Tensor]:
    """What the release calls: a second sigmoid on the outputs, and the first class against everybody. Returns the loss
    η · K · (m₀ − m)², or with reduction "mean" (the successor) η · ½ · (m₀ − m)², and both means."""
    if reduction not in ("sum", "mean"):
        raise PodiumError(f"reduction must be sum or mean, not {reduction!r}.")
    squashed = torch.sigmoid(output)
    first, everybody = squashed[attribute == classes[0]].mean(), squashed.mean()
    factor = len(classes) if reduction == "sum" else 0.5
    return weight * factor * (first - everybody) ** 2, first, everybody


def gated_logistic(x: Tensor, theta: Tensor, phi: Tensor) -> Tensor:
    """p = σ(Σ_j θ_j φ_j x_j): the smallest classifier with a module inside."""
    return torch.sigmoid((x * theta * phi).sum(-1))


@dataclass(frozen=True)
class AlternatingStep:
    """A step of φ on the disparity, then one of θ on the task at the new φ."""

    fairness_before: Tensor  # η · D
    phi: Tensor
    fairness_after: Tensor
    task: Tensor
    gradient: Tensor
    theta: Tensor


def alternating_step(
    model: Callable[[Tensor, Tensor, Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    attribute: Tensor,
    theta: Tensor,
    phi: Tensor,
    *,
    lr_theta: float,
    lr_phi: float,
    eta: float,
    leak: bool = False,
) -> AlternatingStep:
    """φ ← φ − lr_φ ∇_φ η·D, then θ ← θ − lr_θ ∇_θ CE(θ, φ_new). With `leak`, as in two of the scripts, the gradient of
    η·D at the old φ is left on θ and added to the task's. A batch of one group makes no step of φ."""
    theta, phi = theta.detach().requires_grad_(), phi.detach().requires_grad_()
    before = eta * max_pair_loss(model(x, theta, phi), attribute)[0]
    left, pull = torch.autograd.grad(before, (theta, phi))
    moved = (phi - lr_phi * pull).detach()
    output = model(x, theta, moved)
    after = eta * max_pair_loss(output, attribute)[0]
    task = torch.nn.functional.binary_cross_entropy(output, y.to(output.dtype))
    (gradient,) = torch.autograd.grad(task, theta)
    if leak:
        gradient = gradient + left
    stepped = (theta - lr_theta * gradient).detach()
    return AlternatingStep(before.detach(), moved, after.detach(), task.detach(), gradient, stepped)
