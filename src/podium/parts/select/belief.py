"""What is believed of each task's rate of success, and which tasks promise the most."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from podium.core.errors import one_of, within
from podium.core.part import Need
from podium.core.schedule import Number
from podium.parts.select.best import Best

__all__ = ["InformationGain", "LeastKnown", "Thompson", "beta_entropy", "information_gain"]


BELIEF = ("group.belief.successes", "group.belief.failures")


WIDE = 1e5  # counts from which on differences of entropies have lost their digits


class LeastKnown(Best):
    """1 / (a + b): the tasks of which the fewest outcomes have been seen."""

    reference = "InSight: Efficient RLVR Training via Weighted Mutual Information Data Selection"
    needs = BELIEF

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        a, b = (columns[name] for name in BELIEF)
        return 1 / (a + b)


class Thompson(Best):
    """θ^success · (1 − θ)^failure, θ drawn from Beta(a, b): the variance of the reward that the draw promises.

    With both exponents 1 it orders tasks as |θ − 1/2| does.
    """

    reference = "VADE: Variance-Aware Dynamic Sampling via Online Sample-Level Difficulty Estimation"
    success: Number = 1.0  # the exponent of θ: larger prefers easier tasks
    failure: Number = 1.0  # the exponent of 1 − θ: larger prefers harder ones
    draw: str = "posterior"  # θ is a draw from the belief, or its mean

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "success", 0)
        within(self, "failure", 0)
        one_of(self, "draw", ("posterior", "mean"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return (*BELIEF, "group.random") if self.draw == "posterior" else BELIEF

    def score(self, rate: Tensor) -> Tensor:
        """[task] of the success rates that were drawn."""
        return rate**self.success * (1 - rate) ** self.failure

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        a, b = (columns[name] for name in BELIEF)
        if self.draw == "mean":
            return self.score(a / (a + b))
        from scipy.special import betaincinv  # type: ignore[import-untyped]

        drawn = betaincinv(a.double().numpy(), b.double().numpy(), columns["group.random"].double().numpy())
        return self.score(torch.as_tensor(drawn, dtype=a.dtype))


def log_beta(a: Tensor, b: Tensor) -> Tensor:
    return torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)


def beta_entropy(a: Tensor, b: Tensor) -> Tensor:
    """The differential entropy of Beta(a, b), nats."""
    own = (a - 1) * torch.digamma(a) + (b - 1) * torch.digamma(b)
    return log_beta(a, b) - own + (a + b - 2) * torch.digamma(a + b)


def information_gain(a: Tensor, b: Tensor, rollouts: int) -> Tensor:
    """I = H(a, b) − Σ_s q_s H(a + s, b + K − s): what K outcomes are expected to say about the rate, nats.

    q is the beta-binomial distribution of the number of successes. For large counts it is ½ ln(1 + K / (a + b)).
    """
    a, b = a.double()[:, None], b.double()[:, None]
    s = torch.arange(rollouts + 1, dtype=torch.float64)
    f = rollouts - s
    log_choose = torch.lgamma(s.new_tensor(rollouts + 1.0)) - torch.lgamma(s + 1) - torch.lgamma(f + 1)
    q = (log_choose + log_beta(a + s, b + f) - log_beta(a, b)).exp()
    exact = beta_entropy(a, b)[:, 0] - (q * beta_entropy(a + s, b + f)).sum(1)
    counts = (a + b)[:, 0]
    return torch.where(counts > WIDE, 0.5 * torch.log1p(rollouts / counts), exact)


class InformationGain(Best):
    """p (1 − p) e^{−eta (p − mu)²} · I_K, p the mean of the belief and I_K what K rollouts would say about the task."""

    reference = "InSight: Efficient RLVR Training via Weighted Mutual Information Data Selection"
    rollouts: int = 8  # K
    eta: Number = 3.0
    mu: Number = 0.3  # the rate of success around which tasks count most
    pool: int | None = 16

    needs = BELIEF

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "rollouts", 1)
        within(self, "eta", 0)
        within(self, "mu", 0, 1)

    def weight(self, mean: Tensor) -> Tensor:
        """[task] how much a task of this difficulty is worth."""
        return mean * (1 - mean) * (-self.eta * (mean - self.mu).square()).exp()

    def variance_reduction(self, a: Tensor, b: Tensor) -> Tensor:
        """K p (1 − p) / ((n + 1)(n + K)), n = a + b: how much the belief's variance is expected to fall."""
        n, mean = a + b, a / (a + b)
        return self.rollouts * mean * (1 - mean) / ((n + 1) * (n + self.rollouts))

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        a, b = (columns[name] for name in BELIEF)
        return self.weight(a / (a + b)) * information_gain(a, b, self.rollouts).to(a.dtype)
