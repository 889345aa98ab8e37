"""A distance as a constraint: nothing happens inside, and the further outside, the harder the pull."""

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
    """h · k with h = max(beta · (K − delta), 0) held fixed and K the mean of k over the trained tokens of the update.

    Its gradient is that of beta/2 · max(K − delta, 0)². With r = π/π_old on tokens that π_old drew, the distance is
    k1 = −log r, which may come out negative, or k3 = r − 1 − log r.
    """

    reference = "DRPO, https://github.com/Optimization-AI/DRPO"
    delta: Number = 1e-4  # how far is free
    beta: Number = 1e3
    estimator: str = "k1"
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
