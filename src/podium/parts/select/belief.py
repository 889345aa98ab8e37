"""Selection by a Beta belief about each task's success rate: Thompson sampling and information gain."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from podium.core.errors import one_of, within
from podium.core.part import Need
from podium.core.schedule import Number
from podium.parts.select.scored import HighestScore

__all__ = ["InformationGain", "LeastKnown", "Thompson", "beta_entropy", "information_gain"]


# The pseudo-counts a and b of the belief Beta(a, b), as the memory `BetaBeliefs` recalls them.
BELIEF = ("group.belief.successes", "group.belief.failures")
# Above this a + b the difference of two entropies has cancelled to rounding error; the asymptotic formula takes over.
LARGE_COUNT = 1e5


class LeastKnown(HighestScore):
    """Takes the tasks with the fewest observed outcomes: score 1 / (a + b) under the belief Beta(a, b)."""

    reference = "InSight: Efficient RLVR Training via Weighted Mutual Information Data Selection"
    needs = BELIEF

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        a, b = (columns[name] for name in BELIEF)
        return 1 / (a + b)


class Thompson(HighestScore):
    """Thompson sampling of tasks: draws θ ~ Beta(a, b) for each task and takes the highest reward variances.

        score = θ^success · (1 − θ)^failure

    With both exponents 1 the score is the Bernoulli variance, and the tasks with θ nearest to 1/2 come first. Reads the
    belief of `BetaBeliefs`.
    """

    reference = "VADE: Variance-Aware Dynamic Sampling via Online Sample-Level Difficulty Estimation"
    success: Number = 1.0  # exponent of θ, ≥ 0: larger prefers easier tasks
    failure: Number = 1.0  # exponent of 1 − θ, ≥ 0: larger prefers harder tasks
    draw: str = "posterior"  # θ is a draw from the belief (posterior) or its mean (mean)

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "success", 0)
        within(self, "failure", 0)
        one_of(self, "draw", ("posterior", "mean"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return (*BELIEF, "group.random") if self.draw == "posterior" else BELIEF

    def score(self, rate: Tensor) -> Tensor:
        """[task] The score of a task with this success rate."""
        return rate**self.success * (1 - rate) ** self.failure

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        a, b = (columns[name] for name in BELIEF)
        if self.draw == "mean":
            return self.score(a / (a + b))
        from scipy.special import betaincinv  # type: ignore[import-untyped]

        drawn = betaincinv(a.double().numpy(), b.double().numpy(), columns["group.random"].double().numpy())
        return self.score(torch.as_tensor(drawn, dtype=a.dtype))


def log_beta(a: Tensor, b: Tensor) -> Tensor:
    """The logarithm of the Beta function."""
    return torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)


def beta_entropy(a: Tensor, b: Tensor) -> Tensor:
    """The differential entropy of Beta(a, b) in nats."""
    marginal = (a - 1) * torch.digamma(a) + (b - 1) * torch.digamma(b)
    return log_beta(a, b) - marginal + (a + b - 2) * torch.digamma(a + b)


def information_gain(a: Tensor, b: Tensor, rollouts: int) -> Tensor:
    """The mutual information in nats between the success rate and K = `rollouts` outcomes.

        I = H(a, b) − Σ_s q_s H(a + s, b + K − s)

    q is the beta-binomial distribution of the number of successes. For large counts I → ½ ln(1 + K / (a + b)).
    """
    a, b = a.double()[:, None], b.double()[:, None]
    s = torch.arange(rollouts + 1, dtype=torch.float64)
    f = rollouts - s
    log_choose = torch.lgamma(s.new_tensor(rollouts + 1.0)) - torch.lgamma(s + 1) - torch.lgamma(f + 1)
    q = (log_choose + log_beta(a + s, b + f) - log_beta(a, b)).exp()
    exact = beta_entropy(a, b)[:, 0] - (q * beta_entropy(a + s, b + f)).sum(1)
    counts = (a + b)[:, 0]
    return torch.where(counts > LARGE_COUNT, 0.5 * torch.log1p(rollouts / counts), exact)


class InformationGain(HighestScore):
    """Takes the tasks with the highest mutual information between success rate and outcomes, weighted by difficulty.

        score = p (1 − p) e^{−eta (p − mu)²} · I_K,  p = a / (a + b)

    I_K is `information_gain` of K rollouts under the belief of `BetaBeliefs`. eta = 0 leaves the Bernoulli variance as
    the only weight.
    """

    reference = "InSight: Efficient RLVR Training via Weighted Mutual Information Data Selection"
    rollouts: int = 8  # K, rollouts per task
    eta: Number = 3.0  # how sharply difficulties away from mu are discounted, ≥ 0
    mu: Number = 0.3  # the preferred success rate, in [0, 1]
    pool: int | None = 16  # candidates per task of a batch; None: all tasks

    needs = BELIEF

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "rollouts", 1)
        within(self, "eta", 0)
        within(self, "mu", 0, 1)

    def weight(self, mean: Tensor) -> Tensor:
        """[task] The weight of a task whose belief has this mean."""
        return mean * (1 - mean) * (-self.eta * (mean - self.mu).square()).exp()

    def variance_reduction(self, a: Tensor, b: Tensor) -> Tensor:
        """[task] K p (1 − p) / ((n + 1)(n + K)), n = a + b: the expected decrease of the belief's variance."""
        n, mean = a + b, a / (a + b)
        return self.rollouts * mean * (1 - mean) / ((n + 1) * (n + self.rollouts))

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        a, b = (columns[name] for name in BELIEF)
        return self.weight(a / (a + b)) * information_gain(a, b, self.rollouts).to(a.dtype)
