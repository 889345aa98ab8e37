"""Few rollouts and a guess: a baseline between the mean of a group and what was expected of its task."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of
from podium.core.part import Advantage, Columns

__all__ = ["ShrunkBaseline", "error_reduction", "prior_bias", "squared_error"]


def prior_bias(mean: Tensor, prior: Tensor, noise: Tensor) -> Tensor:
    """D² = max(0, (mean − prior)² − noise): how wrong the prior is, as far as the data can tell."""
    return ((mean - prior).square() - noise).clamp(min=0)


def squared_error(bias: Tensor, noise: Tensor) -> Tensor:
    """D² · noise / (D² + noise): the expected squared error of the best mixture of mean and prior."""
    return bias * noise / (bias + noise)


def error_reduction(bias: Tensor, rollouts: Tensor) -> Tensor:
    """How much one more rollout of variance 1 would take off the squared error, D² being held."""
    return squared_error(bias, 1 / rollouts) - squared_error(bias, 1 / (rollouts + 1))


class ShrunkBaseline(Advantage):
    """A = r − b, b = w · mean + (1 − w) · prior, w = D² / (D² + noise), D² = max(0, (mean − prior)² − noise).

    Rewards lie in [−1, 1], so the noise of the mean of k rollouts is at most 1/k: within it the prior stands alone.
    """

    reference = "V0.5, https://now-join-us.github.io/V0_5"
    noise: str = "bound"  # 1/k; or sample: the variance of the group's rewards over k, for rewards between −1 and 1

    needs = ("rollout.reward", "group.prior")
    provides = ("rollout.advantage", "group.baseline", "group.prior.weight")

    def __post_init__(self) -> None:
        one_of(self, "noise", ("bound", "sample"))

    def __call__(self, batch: Batch) -> Columns:
        reward, groups = batch["rollout.reward"], batch.by("rollout", "group")
        mean, prior = groups.agg.mean(reward), batch["group.prior"]
        noise = 1 / groups.agg.count().clamp(min=1).to(reward.dtype)
        if self.noise == "sample":
            noise = noise * groups.agg.var(reward)
        bias = prior_bias(mean, prior, noise)
        # Rewards that do not vary have no noise: where they contradict the prior they are right.
        weight = bias / (bias + noise).where(bias > 0, 1)
        baseline = weight * mean + (1 - weight) * prior
        return {
            "rollout.advantage": reward - groups.spread(baseline),
            "group.baseline": baseline,
            "group.prior.weight": 1 - weight,
        }
