"""Reward design as a bilevel problem: the gradient of what the policy that a reward induces is worth.

dG/dν = ∇_ν G − ∇²_{νθ} V · [∇²_{θθ} V]⁻¹ · ∇_θ G at θ*(ν) = argmax V(ν, ·). The inverse is applied by conjugate
gradients on products with the Hessian, which is never formed. Second derivatives of a return are known here in tables;
of a language model's return they are outside what a run computes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import grad, vjp

from podium.analysis.decision_table import DecisionTable

__all__ = ["RewardDesign", "conjugate_gradient", "hypergradient"]

Level = Callable[[Tensor, Tensor], Tensor]  # of ν and θ


def conjugate_gradient(product: Callable[[Tensor], Tensor], target: Tensor, steps: int, tolerance: float) -> Tensor:
    """x with A x = target, for a positive semi-definite A known by its products, and a target in its range."""
    x, residual = torch.zeros_like(target), target.clone()
    direction, left = residual, (residual * residual).sum()
    enough = tolerance**2 * left
    for _ in range(steps):
        if left <= enough:
            break
        across = product(direction)
        length = left / (direction * across).sum()
        x, residual = x + length * direction, residual - length * across
        left, before = (residual * residual).sum(), left
        direction = residual + left / before * direction
    return x


def hypergradient(
    upper: Level,
    lower: Level,
    nu: Tensor,
    theta: Tensor,
    *,
    steps: int = 200,
    damping: float = 0.0,
    tolerance: float = 1e-12,
) -> Tensor:
    """dG/dν of G(ν) = upper(ν, θ*(ν)), given θ = θ*(ν), the maximum of lower(ν, ·); `damping` is added to the curvature
    where that is nearly flat."""
    slope = grad(lower, argnums=1)
    bend = vjp(lambda t: slope(nu, t), theta)[1]  # the Hessian is symmetric

    def curvature(direction: Tensor) -> Tensor:
        return damping * direction - bend(direction)[0]

    pull = grad(upper, argnums=1)(nu, theta)
    response = conjugate_gradient(curvature, pull, steps, tolerance)
    through = vjp(lambda n: slope(n, theta), nu)[1](response)[0]
    total: Tensor = grad(upper)(nu, theta) + through
    return total


@dataclass(frozen=True)
class RewardDesign:
    """A reward r = features · ν for an agent that maximises it with an entropy bonus, and what its designer wants."""

    table: DecisionTable
    features: Tensor  # [state, action, k]
    utility: Tensor  # [state, action] of the designer
    bonus: float  # α

    @classmethod
    def bandit(cls, utility: Tensor, bonus: float) -> RewardDesign:
        """One state; every action has a reward of its own."""
        features = torch.stack([torch.eye(len(utility), dtype=utility.dtype), utility.new_zeros(2 * (len(utility),))])
        table = DecisionTable.bandit(utility)
        return cls(table, features, table.reward, bonus)

    def induced(self, nu: Tensor) -> Tensor:
        """The logits of the policy that the reward induces."""
        return self.table.best(self.features @ nu, self.bonus)[0]

    def policy(self, nu: Tensor) -> Tensor:
        """[action] its probabilities at the start."""
        return self.induced(nu)[0, 0].softmax(-1)

    def lower(self, nu: Tensor, theta: Tensor) -> Tensor:
        return self.table.value(theta, self.features @ nu, self.bonus)

    def upper(self, _: Tensor, theta: Tensor) -> Tensor:
        return self.table.value(theta, self.utility)

    def worth(self, nu: Tensor) -> Tensor:
        """G(ν): the utility of the induced policy."""
        return self.upper(nu, self.induced(nu))

    def pull(self, nu: Tensor) -> Tensor:
        """∇_θ G at the induced policy."""
        found: Tensor = grad(self.upper, argnums=1)(nu, self.induced(nu))
        return found

    def gradient(self, nu: Tensor) -> Tensor:
        """dG/dν, through the policy."""
        return hypergradient(self.upper, self.lower, nu, self.induced(nu))

    def finite_difference(self, nu: Tensor, step: float = 1e-5) -> Tensor:
        """dG/dν by central differences, the lower level solved anew on both sides."""
        moves = step * torch.eye(len(nu), dtype=nu.dtype)
        return torch.stack([(self.worth(nu + move) - self.worth(nu - move)) / (2 * step) for move in moves])
