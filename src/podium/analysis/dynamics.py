"""How a softmax policy moves: exact steps of small bandits, and what they do to the entropy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

__all__ = [
    "EntropyLaw",
    "advantage_lost_to_noise",
    "bandit",
    "discriminators",
    "entropy_after_logit",
    "entropy_after_step",
    "expected_update",
    "fit_entropy_law",
]


def expected_update(p: Tensor, advantage: Tensor) -> Tensor:
    """Δz_v = p_v (A_v − Σ_u p_u A_u): the expected step of the logits at rate 1. What is rare barely moves."""
    return p * (advantage - (p * advantage).sum(-1, keepdim=True))


def bandit(
    initial: Tensor, rewards: Tensor, learning_rate: float, report: Sequence[int], negative_only: bool = False
) -> Tensor:
    """[report, arm] the arms' probabilities after so many exact expected steps, with the mean reward as baseline."""
    z, probabilities = initial.log(), {}
    for step in range(1, max(report, default=0) + 1):
        p = z.softmax(-1)
        a = rewards - (p * rewards).sum(-1, keepdim=True)
        z = z + learning_rate * expected_update(p, a.clamp(max=0) if negative_only else a)
        if step in report:
            probabilities[step] = z.softmax(-1)
    return torch.stack([initial if step == 0 else probabilities[step] for step in report])


def _entropy(z: Tensor) -> Tensor:
    return -(z.softmax(-1) * z.log_softmax(-1)).sum(-1)


def discriminators(z: Tensor) -> tuple[Tensor, Tensor]:
    """[token] S = p (log p + H), and its mean under p."""
    p = z.softmax(-1)
    s = p * (z.log_softmax(-1) + _entropy(z))
    return s, (p * s).sum(-1)


def entropy_after_logit(z: Tensor, action: int, step: float) -> tuple[Tensor, Tensor]:
    """By how much the entropy changes when one logit is raised by `step`: exactly, and to first order −step · S."""
    raised = z.index_add(0, torch.tensor([action]), z.new_tensor([step]))
    return _entropy(raised) - _entropy(z), -step * discriminators(z)[0][action]


def entropy_after_step(z: Tensor, action: int, advantage: float, step: float) -> tuple[Tensor, Tensor]:
    """The same for a policy-gradient step on a sampled action: to first order −step · A · (S − mean S)."""
    onehot = torch.nn.functional.one_hot(torch.tensor(action), len(z)).to(z.dtype)
    moved = z + step * advantage * (onehot - z.softmax(-1))
    s, mean = discriminators(z)
    return _entropy(moved) - _entropy(z), -step * advantage * (s[action] - mean)


def advantage_lost_to_noise(group_size: Tensor, correct: Tensor) -> Tensor:
    """n (G − n) / G: how much of its centred reward the n right rollouts of a group lose when labels are fair coins."""
    return correct * (group_size - correct) / group_size.clamp(min=1)


@dataclass(frozen=True)
class EntropyLaw:
    """R = −a · exp(H) + b: what performance a policy trades its entropy for."""

    a: float
    b: float

    @property
    def ceiling(self) -> float:
        """The performance predicted where no entropy is left."""
        return self.b - self.a

    def __call__(self, entropy: float) -> float:
        return float(self.b - self.a * np.exp(entropy))


def fit_entropy_law(entropy: Sequence[float], performance: Sequence[float]) -> EntropyLaw:
    """Least squares over the points of a run: mean token entropy on the training batch, score on held-out tasks."""
    x = np.stack([-np.exp(np.asarray(entropy, dtype=float)), np.ones(len(entropy))], axis=1)
    (a, b), *_ = np.linalg.lstsq(x, np.asarray(performance, dtype=float), rcond=None)
    return EntropyLaw(float(a), float(b))
