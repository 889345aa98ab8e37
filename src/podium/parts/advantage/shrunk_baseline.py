"""Shrinkage baselines: between the group mean of a few rollouts and a prior of the task's value."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.cells import overflow_safe
from podium.core.errors import one_of
from podium.core.part import Advantage, Columns
from podium.core.partition import Partition

__all__ = ["ShrunkBaseline", "error_reduction", "prior_bias", "squared_error"]


def prior_bias(mean: Tensor, prior: Tensor, noise: Tensor) -> Tensor:
    """D² = max(0, (mean − prior)² − noise), an estimate of the squared bias of the prior."""
    return ((mean - prior).square() - noise).clamp(min=0)


def squared_error(bias: Tensor, noise: Tensor) -> Tensor:
    """D² · noise / (D² + noise), the expected squared error of the optimal combination of mean and prior."""
    return bias * noise / (bias + noise)


def error_reduction(bias: Tensor, rollouts: Tensor) -> Tensor:
    """The reduction of the squared error by one more rollout of variance 1, at the same D²."""
    return squared_error(bias, 1 / rollouts) - squared_error(bias, 1 / (rollouts + 1))


class ShrunkBaseline(Advantage):
    """Subtracts an empirical shrinkage baseline between the group mean and a prior: A = r − b.

        b = w · mean + (1 − w) · prior,  w = D² / (D² + noise),  D² = max(0, (mean − prior)² − noise)

    Rewards must lie in [−1, 1], so that the variance of the mean of k rollouts is at most 1/k; if the mean deviates
    from the prior by less than that, the prior is the baseline. Reads `group.prior` (`SuccessPrior` or `ScoreHistory`).
    """

    reference = "V0.5, https://now-join-us.github.io/V0_5"
    noise: str = "bound"  # variance of the mean: the bound 1/k, or sample, the variance of the group's rewards over k

    needs = ("rollout.reward", "group.prior")
    provides = ("rollout.advantage", "group.baseline", "group.prior.weight")

    def __post_init__(self) -> None:
        one_of(self, "noise", ("bound", "sample"))

    def __call__(self, batch: Batch) -> Columns:
        reward, groups = batch["rollout.reward"], batch.by("rollout", "group")
        mean, prior = groups.agg.mean(reward), batch["group.prior"]
        weight = overflow_safe(lambda wide: self._weight(groups, wide, prior), reward)
        baseline = weight * mean + (1 - weight) * prior
        return {
            "rollout.advantage": reward - groups.spread(baseline),
            "group.baseline": baseline,
            "group.prior.weight": 1 - weight,
        }

    def _weight(self, groups: Partition, reward: Tensor, prior: Tensor) -> Tensor:
        """[group] w."""
        noise = 1 / groups.agg.count().clamp(min=1).to(reward.dtype)
        if self.noise == "sample":
            noise = noise * groups.agg.var(reward)
        bias = prior_bias(groups.agg.mean(reward), prior, noise)
        # Rewards that do not vary have no noise: if they contradict the prior, the mean is the baseline.
        return bias / (bias + noise).where(bias > 0, 1)
