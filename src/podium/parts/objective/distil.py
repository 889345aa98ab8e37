"""Distillation: the policy's next-token distribution is pulled towards a teacher's."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Need, stop_gradient
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.core.term import Term
from podium.parts.objective.importance import NOW

__all__ = ["Distil", "divergence_of"]

TINY = 1e-12  # a smaller probability of the tail is rounding error
VOCABULARY = 1 << 30  # more tokens than any vocabulary has
OLD = Signal("logp", of="old")


class Distil(Term):
    """Distillation by a divergence of the policy p and the teacher q, over `k` tokens or the whole vocabulary.

    - `js`: (1 − mix) KL(p ‖ m) + mix · KL(q ‖ m) with m = (1 − mix) p + mix · q, the Jensen-Shannon divergence;
    - `reverse`: KL(p ‖ q), which seeks the teacher's modes;
    - `forward`: KL(q ‖ p), which covers all that the teacher does.

    The tokens are the teacher's k likeliest, or those of the student as it was when it sampled. All others are one
    `bucket`, are left out and the rest `renormalised`, or just left out (`dropped`). Only the policy gets a gradient.
    """

    reference = "On-Policy Distillation of Language Models, https://arxiv.org/abs/2306.13649"
    k: int | None = 100  # tokens that are compared one by one; None: all, which holds [token, vocabulary] numbers
    teacher: str = "teacher"  # a role
    divergence: str = "js"  # js, reverse or forward
    mix: Number = 0.5  # the teacher's share in the mixture of js, in (0, 1)
    support: str = "teacher"  # whose k likeliest tokens: teacher or student
    others: str = "bucket"  # the tokens beyond the k: bucket, renormalised or dropped
    power: float = 1.0  # sharpens the teacher: softmax(power · logits); above 0
    cap: Number | None = None  # weighs tokens by π / π_old up to this, at least 1; None: not at all

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "k", 1, optional=True)
        one_of(self, "divergence", ("js", "reverse", "forward"))
        within(self, "mix", 0, 1, open_low=True)
        if self.mix == 1:
            raise PodiumError("Distil.mix = 1 leaves nothing of the policy in the mixture: use divergence='reverse'.")
        one_of(self, "support", ("teacher", "student"))
        one_of(self, "others", ("bucket", "renormalised", "dropped"))
        within(self, "power", 0, open_low=True)
        within(self, "cap", 1, optional=True)

    @property
    def _power(self) -> dict[str, Any]:
        return {} if self.power == 1.0 else {"power": self.power}

    @property
    def _top(self) -> Signal:
        """The tokens that are compared, with the log-probabilities of whoever chose them."""
        k = VOCABULARY if self.k is None else self.k
        if self.support == "student":
            return Signal("top", of="old", k=k)
        return Signal("top", of=self.teacher, k=k, **self._power)

    @property
    def _teacher(self) -> Signal:
        return Signal("logp_of", of=self.teacher, tokens=self._top.column, **self._power)

    @property
    def _student(self) -> Signal:
        return Signal("logp_of", of="now", grad=True, tokens=self._top.column)

    @property
    def needs(self) -> tuple[Need, ...]:
        teacher = (self._teacher,) if self.support == "student" else ()
        weight = () if self.cap is None else (NOW, OLD)
        return (self._top, *teacher, self._student, *weight)

    def loss(self, batch: Batch) -> Tensor:
        q = batch[self._teacher] if self.support == "student" else batch[self._top][..., 1]
        p, q = self._completed(batch[self._student]), self._completed(q)
        loss = divergence_of(p, q, self.divergence, float(self.mix))
        if self.cap is None:
            return loss
        return loss * stop_gradient(batch[NOW] - batch[OLD]).clamp(-20.0, math.log(self.cap)).exp()

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        covered = batch[self._top][..., 1].exp().sum(-1)  # what is compared one by one, in the eyes of who chose it
        return {"divergence": self.loss(batch), "covered": covered}

    def _completed(self, logp: Tensor) -> Tensor:
        """[token, k or k + 1] the log-probabilities that are compared, given those of k tokens."""
        if self.others == "dropped" or self.k is None:
            return logp
        if self.others == "renormalised":
            return logp - logp.logsumexp(-1, keepdim=True)
        rest = (1 - logp.exp().sum(-1, keepdim=True)).clamp(min=TINY).log()
        return torch.cat([logp, rest], -1)


def divergence_of(p: Tensor, q: Tensor, kind: str = "js", mix: float = 0.5) -> Tensor:
    """[token] the divergence of distributions given as log-probabilities [token, k]."""
    if kind == "reverse":
        return (p.exp() * (p - q)).sum(-1)
    if kind == "forward":
        return (q.exp() * (q - p)).sum(-1)
    m = torch.logaddexp(p + math.log(1 - mix), q + math.log(mix))
    return ((1 - mix) * p.exp() * (p - m) + mix * q.exp() * (q - m)).sum(-1)
