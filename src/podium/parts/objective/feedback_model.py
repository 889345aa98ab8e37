"""Training of a reward model on feedback of 0 and 1: who reacts, how, and what they would say of every answer."""

from __future__ import annotations

from dataclasses import field

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Need, stop_gradient
from podium.core.signal import Signal
from podium.core.term import Aggregate, Term
from podium.parts.objective.feedback import (
    LEAST,
    check_noise,
    doubly_robust,
    imputed_loss,
    inverse_propensity,
    label_loss,
    noise_corrected,
)
from podium.parts.objective.rollout_value import last_value

__all__ = ["HEADS", "FeedbackLoss", "ReactionLoss"]

REFERENCE = "CausalRM, https://arxiv.org/abs/2603.18736"
HEADS = ("reward", "propensity", "proxy", "imputation")  # of the reward model, whose values are log-odds


def head_of(name: str, of: str = "now", grad: bool = True) -> Signal:
    """The values of one of the heads."""
    return Signal("value", of=of, grad=grad, head=HEADS.index(name))


class _HeadLoss(Term):
    reference = REFERENCE
    level = "rollout"
    aggregate: Aggregate = field(default=Aggregate("rollout mean"), kw_only=True)  # observed or not
    trains: str = field(default="rm", kw_only=True)

    @property
    def couples(self) -> str:
        return "rollout"

    def predicted(self, batch: Batch, name: str, of: str = "now") -> Tensor:
        """[rollout] the σ of one of the heads, after the last token."""
        return last_value(batch, head_of(name, of)).sigmoid()


class ReactionLoss(_HeadLoss):
    """Trains who reacts, and how: (p − o)² + (o / p) · (g − r)², over all rollouts.

    p = σ(propensity) is the probability of feedback, g = σ(proxy) the feedback itself, which may be wrong. p is
    constant in the second term, and at least `least` there.
    """

    least: float = LEAST  # propensity below which weights grow no further

    needs = ("rollout.observed", "rollout.feedback", head_of("propensity"), head_of("proxy"))

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "least", 0, 1, open_low=True)

    def loss(self, batch: Batch) -> Tensor:
        o, r = batch["rollout.observed"], batch["rollout.feedback"]
        p, g = self.predicted(batch, "propensity"), self.predicted(batch, "proxy")
        return label_loss(p, o.to(p.dtype)) + inverse_propensity(label_loss(g, r), o, stop_gradient(p), self.least)

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {"feedback.propensity": self.predicted(batch, "propensity")}


class FeedbackLoss(_HeadLoss):
    """Trains a reward model f = σ(reward) on feedback r that is noisy, and given to some rollouts (o = 1) only.

    By `estimator`, over all rollouts, with l the squared error corrected for noise (`noise_corrected`), p the
    propensity and e = q · f_1 + (1 − q) · f_0 the loss that σ(imputation) = q lets expect:

    - naive: o · (f − r)²; surrogate: o · l; ips: (o / p) · l;
    - dr: e + (o / p) · (l − e), beside (o / p) · (e − l)² for the imputation; neither trains the other.

    rates = (0, 0) and p = 1 is the plain squared error.
    """

    estimator: str = "dr"  # naive, surrogate, ips or dr
    rates: tuple[float, float] | None = None  # rho_01 and rho_10; None: those of `NoiseAnchors`
    least: float = LEAST  # propensity below which weights grow no further
    role: str = "rm"  # whose propensities are used, as they are before the update

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "estimator", ("naive", "surrogate", "ips", "dr"))
        within(self, "least", 0, 1, open_low=True)
        if self.rates is not None:
            check_noise(*self.rates)

    @property
    def needs(self) -> tuple[Need, ...]:
        anchored = self.rates is None and self.estimator != "naive"
        return (
            "rollout.observed",
            "rollout.feedback",
            head_of("reward"),
            *(("batch.rho_01", "batch.rho_10") if anchored else ()),
            *((head_of("propensity", self.role, grad=False),) if self.estimator in ("ips", "dr") else ()),
            *((head_of("imputation"),) if self.estimator == "dr" else ()),
        )

    def noise(self, batch: Batch) -> tuple[float, float]:
        """(rho_01, rho_10)."""
        if self.estimator == "naive":
            return 0.0, 0.0
        if self.rates is not None:
            return self.rates
        return float(batch["batch.rho_01"]), float(batch["batch.rho_10"])

    def loss(self, batch: Batch) -> Tensor:
        f, o, r = self.predicted(batch, "reward"), batch["rollout.observed"], batch["rollout.feedback"]
        noise = self.noise(batch)
        if self.estimator in ("naive", "surrogate"):
            return inverse_propensity(noise_corrected(f, r, *noise), o, f.new_ones(len(f)))
        p = self.predicted(batch, "propensity", self.role)
        loss = noise_corrected(f, r, *noise)
        if self.estimator == "ips":
            return inverse_propensity(loss, o, p, self.least)
        q = self.predicted(batch, "imputation")
        miss = imputed_loss(stop_gradient(f), q) - stop_gradient(loss)
        robust = doubly_robust(loss, o, p, imputed_loss(f, stop_gradient(q)), self.least)
        return robust + inverse_propensity(miss.square(), o, p, self.least)

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {"feedback.predicted": self.predicted(batch, "reward")}
