"""A KL constraint as a squared hinge: no force inside the trust region, and a growing one outside."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import stop_gradient
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.core.term import Term
from podium.parts.objective.importance import NOW

__all__ = ["StayWithin"]

OLD = Signal("logp", of="old")


class StayWithin(Term):
    """Trust-region penalty on KL(π_old ‖ π): h · k with h = max(beta · (K − delta), 0) as a constant.

    K is the mean of k over the trained tokens of the update, so the gradient is that of beta/2 · max(K − delta, 0)².
    With r = π/π_old on tokens sampled from π_old, k is k1 = −log r, which may be negative, or k3 = r − 1 − log r.
    """

    reference = "DRPO, https://github.com/Optimization-AI/DRPO"
    delta: Number = 1e-4  # the KL that is free of charge, nats
    beta: Number = 1e3  # the strength of the penalty
    estimator: str = "k1"  # k1 or k3
    clamp: float = 20.0  # log r is held within ± this in k3

    needs = (NOW, OLD)

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "delta", 0)
        within(self, "beta", 0)
        one_of(self, "estimator", ("k1", "k3"))
        within(self, "clamp", 0, open_low=True)

    @property
    def couples(self) -> str:
        return "update"

    def distance(self, batch: Batch) -> Tensor:
        """[token] k."""
        log_r = batch[NOW] - batch[OLD]
        if self.estimator == "k1":
            return -log_r
        log_r = log_r.clamp(-self.clamp, self.clamp)
        return log_r.exp() - 1 - log_r

    def excess(self, batch: Batch) -> Tensor:
        """[batch] K − delta."""
        return batch.reduce(self.distance(batch), "token", "batch", "mean", where=self.members(batch)) - self.delta

    def loss(self, batch: Batch) -> Tensor:
        pull = stop_gradient(self.beta * self.excess(batch).clamp(min=0))
        return batch.spread(pull, "batch", "token") * self.distance(batch)

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        outside = batch.spread(self.excess(batch) > 0, "batch", "token")
        return {"kl.old": self.distance(batch), "constraint": outside}
